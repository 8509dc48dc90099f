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
from tests.kube.networks.intermediaries import Relay

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


@pytest.mark.long
@pytest.mark.parametrize("kind", ["silence", "answers lost"])
def test_partition_in_front_of_the_leading_scheduler(cluster: DrillCluster, kind: str) -> None:
    cluster.kill("scheduler")
    with Relay(cluster.address) as relay:
        former = cluster.leader("scheduler")
        cluster.start("scheduler", "scheduler-a", *ELECTED, relay=relay)
        first = cluster.await_leader("scheduler", other_than=former)
        cluster.start("scheduler", "scheduler-b", *ELECTED)
        with drill(cluster, f"partition-{kind.replace(' ', '-')}") as current:
            current.traffic.until_more_end(2)
            with current.trouble():
                if kind == "silence":
                    relay.go_dead()
                else:
                    relay.loses_answers = True
                second = cluster.await_leader("scheduler", other_than=first)
            current.traffic.until_more_end(2)
            relay.revive()
            with current.trouble():
                cluster.kill("scheduler-b")
                assert cluster.await_leader("scheduler", other_than=second) == first
        cluster.kill("scheduler-a")
    cluster.start_again("scheduler")
    cluster.await_leader("scheduler", other_than=first)
