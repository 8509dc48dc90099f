"""A busy cluster with jobs of mixed sizes: large gangs start, and nobody waits without need."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tests.muster.scheduler.busy_cluster import BusyCluster

SEEDS = st.integers(0, 1 << 32)


def large_gangs_start_in_time(seed: int, nodes: int, jobs: int = 40) -> BusyCluster:
    world = BusyCluster(seed, nodes=nodes, jobs=jobs)
    world.run()
    world.check_nothing_was_missed()
    for name, latest in world.latest.items():
        assert world.started[name] <= latest, f"{name} waited for younger jobs"
    for name, arrived in world.arrived.items():
        assert name.startswith("g") or world.started[name] == arrived, f"{name} needs only CPUs"
    return world


def test_the_cluster_is_so_busy_that_gangs_starve() -> None:
    world = large_gangs_start_in_time(1, nodes=3)

    assert len(world.latest) > 15


@pytest.mark.slow
@settings(max_examples=25)
@given(SEEDS, st.integers(2, 12))
def test_a_starving_gang_that_is_first_in_line_waits_at_most_for_what_runs_now(
    seed: int, nodes: int
) -> None:
    large_gangs_start_in_time(seed, nodes)


@pytest.mark.long
@settings(max_examples=2000)
@given(SEEDS, st.integers(2, 24))
def test_starving_gangs_start_in_time_on_thousands_of_busy_clusters(seed: int, nodes: int) -> None:
    large_gangs_start_in_time(seed, nodes, jobs=120)
