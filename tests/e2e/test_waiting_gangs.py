"""Gangs that wait for room: their reasons follow the cluster, and they start with true numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow

SIZE = "sh -c 'echo world $WORLD_SIZE nodes $PET_NNODES; exec sleep 99'"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node with two CPUs."""
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up("--cpus-per-node=2")
    yield cluster
    cluster.down()


def test_a_waiting_gang_that_is_scaled_starts_with_the_new_numbers(local: LocalCluster) -> None:
    flags = ("--name=g", "--image=x", "--gang", "--workers=3", "--cpu=1")
    local.arena("submit", "pytorch", *flags, SIZE)
    until(lambda: local.job("g")["reason"], what="the gang waits with a reason")

    local.arena("scale", "g", "--workers=2")

    local.wait_job("g", "RUNNING")

    def lines_of_both() -> list[str]:
        lines = local.arena("logs", "g", "--all").stdout.splitlines()
        return lines if len(lines) == 2 else []

    lines = until(lines_of_both, what="both replicas have started")
    assert [line.split(" world ")[1] for line in lines] == ["2 nodes 2"] * 2
