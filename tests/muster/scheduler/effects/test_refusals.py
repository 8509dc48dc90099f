"""Rejected writes are logged once for each rule, whatever the object."""

from __future__ import annotations

import logging

import pytest

from kubekit.client.error_response import Status, error_from_status
from kubekit.client.request import Request
from kubekit.errors import MusterError
from kubekit.request_errors import Forbidden
from muster.scheduler.effects.reporter import Refusals

log = logging.getLogger(__name__)
ACCOUNT = "system:serviceaccount:muster:muster-scheduler"
DENIED = f'User "{ACCOUNT}" cannot patch resource "pods/status" in API group ""'


def refused(message: str, pod: str) -> MusterError:
    request = Request("PATCH", f"/api/v1/namespaces/team/pods/{pod}/status")
    return error_from_status(Status(message, "Forbidden", 403), 403, request)


@pytest.mark.parametrize("message", [DENIED, "a webhook says no"])
def test_the_same_rule_is_logged_once_for_all_objects(
    message: str, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = Refusals(log)

    for pod in ("a", "b"):
        refusals.take(refused(message, pod), None)
    refusals.take(MusterError("no answer"), None)

    assert len(caplog.messages) == 2


def test_a_refused_request_carries_the_right_that_it_lacks() -> None:
    denied, other = refused(DENIED, "a"), refused("a webhook says no", "a")

    assert isinstance(denied, Forbidden)
    assert isinstance(other, Forbidden)
    assert denied.missing_right is not None
    assert denied.missing_right.who == "muster-scheduler"
    assert denied.missing_right.rule.resources == ("pods/status",)
    assert (other.missing_right, other.action) == (None, "patch pods/status")
