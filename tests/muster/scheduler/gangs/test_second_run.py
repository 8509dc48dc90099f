"""A gang whose members have all succeeded and that is run again: all or nothing, again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.muster.scheduler.builders import coscheduling_group, gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, cluster_with_gang

pytestmark = pytest.mark.looptime
DIALECTS: dict[str, Callable[[str, int], Any]] = {
    "volcano": volcano_group,
    "coscheduling": coscheduling_group,
}
both = pytest.mark.parametrize("dialect", DIALECTS)


async def finished(dialect: str = "volcano", *, cleaned: bool, minimum: int = 4) -> FakeCluster:
    """A gang of four has run on four GPUs; then a filler takes two of them."""
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), DIALECTS[dialect]("g", minimum))
    cluster.add(*gang("g", 4, gpus=1, dialect=dialect))
    async with cluster.running():
        await cluster.settle()
        for i in range(4):
            cluster.finish(f"g-{i}", "Succeeded")
        await cluster.settle()
        for i in range(4 if cleaned else 0):
            cluster.delete_pod(f"g-{i}")
        await cluster.settle()
        cluster.add(pod("filler", gpus=2, created=10))
        await cluster.settle()
    return cluster


@both
async def test_a_second_run_under_the_same_names_is_all_or_nothing(dialect: str) -> None:
    cluster = await finished(dialect, cleaned=True)
    async with cluster.running():
        for member in gang("g", 4, gpus=1, dialect=dialect, created=20):
            cluster.add(member)
            await cluster.settle(0.1)
        await cluster.settle(60)
        assert cluster.bound("g") == {}
        cluster.delete_pod("filler")
        await cluster.settle()

    assert len(cluster.bound("g")) == 4


@both
async def test_a_second_run_beside_the_ended_pods_of_the_first_is_all_or_nothing(
    dialect: str,
) -> None:
    cluster = await finished(dialect, cleaned=False)
    async with cluster.running():
        for i in range(4):
            cluster.add(pod(f"r2-{i}", group="g", gpus=1, dialect=dialect, created=20))
            await cluster.settle(0.1)
        await cluster.settle(60)
        assert cluster.bound("r2") == {}
        cluster.delete_pod("filler")
        await cluster.settle()

    assert len(cluster.bound("r2")) == 4


@both
async def test_the_second_run_is_all_or_nothing_after_a_restart_too(dialect: str) -> None:
    cluster = await finished(dialect, cleaned=False)
    for i in range(4):
        cluster.add(pod(f"r2-{i}", group="g", gpus=1, dialect=dialect, created=2_000_000))

    cluster.restart()
    await cluster.run(60)

    assert cluster.bound("r2") == {}


async def test_a_member_of_the_second_run_that_dies_leaves_its_room_to_its_replacement() -> None:
    cluster = await finished(cleaned=False)
    async with cluster.running():
        cluster.delete_pod("filler")
        cluster.add(*(pod(f"r2-{i}", group="g", gpus=1, created=20) for i in range(4)))
        await cluster.settle()
        assert len(cluster.bound("r2")) == 4
        cluster.add(pod("rival", gpus=1, created=30))
        cluster.finish("r2-1", "Failed")
        await cluster.settle(60)
        assert cluster.bound("rival") == {}
        cluster.add(pod("r2-9", group="g", gpus=1, created=40))
        await cluster.settle()

    assert "r2-9" in cluster.bound()


async def test_a_failed_member_beyond_the_minimum_is_replaced_alone() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 2), *gang("g", 4, gpus=1))
    async with cluster.running():
        await cluster.settle()
        for i in range(3):
            cluster.finish(f"g-{i}", "Succeeded")
        cluster.finish("g-3", "Failed")
        await cluster.settle(5)
        cluster.delete_pod("g-3")
        await cluster.settle(5)
        cluster.add(pod("g-3", group="g", gpus=1, created=20))
        await cluster.settle()

    assert list(cluster.bound("g")) == ["g-3"]


async def test_the_last_member_that_fails_is_replaced_beside_those_that_succeeded() -> None:
    cluster = cluster_with_gang(4)
    async with cluster.running():
        await cluster.settle()
        for i in range(3):
            cluster.finish(f"g-{i}", "Succeeded")
            cluster.delete_pod(f"g-{i}")
        cluster.finish("g-3", "Failed")
        cluster.delete_pod("g-3")
        await cluster.settle(5)
        cluster.add(pod("g-3", group="g", gpus=1, created=20))
        await cluster.settle()

    assert list(cluster.bound("g")) == ["g-3"]
