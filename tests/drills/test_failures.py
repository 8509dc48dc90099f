"""Failures of the control plane and of Muster's daemons, with jobs running and arriving."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills.cluster import (
    ELECTED,
    DrillCluster,
    drill_cluster,
    kill_and_start_again,
    start_both,
)
from tests.drills.drill import drill

pytestmark = [pytest.mark.kube, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[DrillCluster]:
    with drill_cluster(control_plane_binaries) as started:
        start_both(started, *ELECTED)
        yield started


def test_api_server_killed_and_history_compacted(cluster: DrillCluster) -> None:
    with drill(cluster, "apiserver") as current:
        current.traffic.until_more_end(3)
        with current.trouble():
            cluster.plane.kill_apiserver()
            cluster.plane.compact()  # watches from before are answered with 410
            cluster.plane.start_apiserver()
            cluster.restart_kwok()
        assert current.traffic.outages > 0


def test_operator_and_scheduler_killed(cluster: DrillCluster) -> None:
    with drill(cluster, "killed") as current:
        current.traffic.until_more_end(1)
        with current.trouble():
            kill_and_start_again(cluster)
