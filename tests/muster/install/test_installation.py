"""The readiness of Deployments."""

from __future__ import annotations

import pytest

from muster.install.installation import readiness


@pytest.mark.parametrize(
    ("wanted", "updated", "available", "ready"),
    [(2, 2, 2, 2), (2, 1, 2, 1), (2, 2, 1, 1), (1, 2, 2, 1)],
    ids=["ready", "rolling", "starting", "scaled down"],
)
def test_ready_replicas_are_counted_up_to_the_wanted_number(
    wanted: int, updated: int, available: int, ready: int
) -> None:
    status = {"observedGeneration": 1, "updatedReplicas": updated, "availableReplicas": available}
    deployment = {"metadata": {"generation": 1}, "spec": {"replicas": wanted}, "status": status}

    assert readiness(deployment) == (ready, wanted)
