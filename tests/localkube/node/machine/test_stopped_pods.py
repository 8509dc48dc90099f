"""The pods that are marked when the cluster stops, and their status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubekit.objects.core import Pod
from localkube.node.machine.stopped_pods import disruption_status, was_stopped
from tests.builders import read_pod

NODES = frozenset({"muster-0"})


OWNED = [{"kind": "TFJob", "name": "j", "uid": "u", "controller": True}]


def pod(
    node: str = "muster-0", phase: str = "Running", policy: str = "Never", **metadata: Any
) -> Pod:
    status = {"phase": phase}
    return read_pod(meta=metadata, status=status, nodeName=node, restartPolicy=policy)


@pytest.mark.parametrize("phase", ["", "Pending", "Running"])
def test_a_pod_that_had_not_ended_is_marked(phase: str) -> None:
    assert was_stopped(pod(phase=phase), NODES)


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_a_pod_with_a_controller_is_marked_whatever_its_restart_policy(policy: str) -> None:
    assert was_stopped(pod(policy=policy, ownerReferences=OWNED), NODES)


@pytest.mark.parametrize(
    "other",
    [
        pod(policy="Always"),
        pod(policy="OnFailure"),
        pod(phase="Succeeded"),
        pod(phase="Failed"),
        pod(node="elsewhere"),
        pod(node=""),
        pod(deletionTimestamp="2026-01-01T00:00:00Z"),
    ],
)
def test_other_pods_are_not_marked(other: Pod) -> None:
    assert not was_stopped(other, NODES)


def test_the_status_has_a_disruption_condition() -> None:
    status = disruption_status("Terminated", "It was stopped.", datetime(2026, 1, 1, tzinfo=UTC))

    assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
    assert status["conditions"][0]["type"] == "DisruptionTarget"
    assert status["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
