"""This API server and the real one give the same answers to the same requests."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

import pytest

from muster.contract import crds
from tests.localkube.conformance.cases import ALL
from tests.localkube.conformance.normalization import normalized
from tests.localkube.conformance.transcript import Case, Connection, Step, play
from tests.side_by_side import side_by_side
from tests.waiting import until

if TYPE_CHECKING:
    from tests.localkube.conformance.conftest import Running

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def installed(ours: Running, real: Running) -> None:
    """Our CRDs on both servers, served."""
    for server in (ours, real):
        connection = Connection(server)
        for crd in crds.load_all():
            created = connection.send(
                Step("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
            )
            assert created.status in (201, 409), created.body
        until(partial(_serves_jobs, connection), what="the jobs' CRD being served")
        connection.close()


def _serves_jobs(connection: Connection) -> bool:
    return connection.send(Step("GET", "/apis/kubeflow.org/v1/tfjobs")).status == 200


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_both_servers_give_the_same_answers(
    case: Case, ours: Running, real: Running, installed: None
) -> None:
    name = f"case-{secrets.token_hex(4)}"

    expected, actual = side_by_side(
        lambda server: normalized(play(server, case, name), case, name), real, ours
    )

    for step, want, got in zip(case.steps, expected, actual, strict=True):
        assert got == want, f"{step.method} {step.path}"
