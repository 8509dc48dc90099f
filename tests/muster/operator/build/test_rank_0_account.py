"""The annotation muster.dev/rank-0-service-account gives one pod of a job an account of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.muster.operator.builders import Model, manifest, replica

ACCOUNT = "muster.dev/rank-0-service-account"


def accounts(kind: str, container: str, roles: dict[str, int], **template: Any) -> dict[str, str]:
    """The service account of each pod, by the pod's name."""
    raw = manifest(kind, {r: replica(n, name=container, **template) for r, n in roles.items()})
    raw["metadata"]["annotations"] = {ACCOUNT: "writer"}
    model = Model(raw)
    model.step()
    return {
        name: pod["spec"].get("serviceAccountName", "") for name, pod in model.manifests.items()
    }


@pytest.mark.parametrize(
    ("kind", "container", "roles", "rank_0"),
    [
        ("JAXJob", "jax", {"Worker": 2}, "j-worker-0"),
        ("TFJob", "tensorflow", {"Worker": 2, "PS": 1}, "j-worker-0"),
        ("TFJob", "tensorflow", {"Worker": 2, "Chief": 1}, "j-chief-0"),
        ("PyTorchJob", "pytorch", {"Worker": 2, "Master": 1}, "j-master-0"),
        ("MPIJob", "mpi", {"Launcher": 1, "Worker": 2}, "j-worker-0"),
    ],
)
def test_only_rank_0_gets_the_account(
    kind: str, container: str, roles: dict[str, int], rank_0: str
) -> None:
    found = accounts(kind, container, roles)

    assert len(found) > 1
    assert {name for name, account in found.items() if account == "writer"} == {rank_0}


def test_it_replaces_the_account_of_the_template() -> None:
    found = accounts("JAXJob", "jax", {"Worker": 2}, serviceAccountName="team")

    assert found == {"j-worker-0": "writer", "j-worker-1": "team"}
