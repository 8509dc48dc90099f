"""Stand-ins for members that do not exist: they keep free room, and no more than that."""

from __future__ import annotations

import pytest

from muster.api.core import Pod
from muster.errors import Unreachable
from muster.scheduler.gangs import holds
from muster.scheduler.state import State
from tests.scheduler.builders import gang, node, pod, volcano_group
from tests.scheduler.fake_cluster import FakeCluster

pytestmark = pytest.mark.looptime

NEVER = {"preemptionPolicy": "Never"}


async def two_gangs(**high: object) -> FakeCluster:
    """A gang of four of a high priority and one of a low, and no room beside them."""
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), node("n2", gpus=4))
    async with cluster.running():
        cluster.add(volcano_group("high", 4), *gang("high", 4, gpus=1, priority=9, **high))
        await cluster.settle()
        cluster.add(volcano_group("low", 4, created=9), *gang("low", 4, gpus=1))
        await cluster.settle()
        assert len(cluster.bound("high")) == len(cluster.bound("low")) == 4
    return cluster


async def test_nothing_is_evicted_for_members_that_do_not_exist() -> None:
    cluster = await two_gangs()
    async with cluster.running():
        cluster.add(volcano_group("high", 6))
        await cluster.settle(60)

    assert cluster.deletes == []
    assert len(cluster.bound("low")) == 4


async def test_nothing_is_evicted_until_every_missing_member_exists() -> None:
    cluster = await two_gangs()
    async with cluster.running():
        cluster.add(volcano_group("high", 6), pod("high-4", gpus=1, group="high", priority=9))
        await cluster.settle(20)
        assert cluster.deletes == []
        cluster.add(pod("high-5", gpus=1, group="high", priority=9))
        await cluster.settle(5)

    assert {d.reason for d in cluster.deletes} == {"Preempted"}
    assert len(cluster.bound("high")) == 6


@pytest.mark.parametrize("polite", [False, True])
async def test_only_the_replacement_itself_may_evict_and_only_if_its_policy_allows_it(
    polite: bool,
) -> None:
    spec = NEVER if polite else {}
    cluster = await two_gangs(spec=spec)
    home = cluster.bound()["high-1"]
    async with cluster.running():
        cluster.add(node(home, gpus=4, unschedulable=True))
        cluster.delete_pod("high-1")
        await cluster.settle(20)
        assert cluster.deletes == []
        cluster.add(pod("high-1b", gpus=1, group="high", priority=9, spec=spec))
        await cluster.settle(5)

    assert bool(cluster.deletes) is not polite
    assert ("high-1b" in cluster.bound()) is not polite


async def test_a_gang_evicts_for_its_late_member_together_with_its_own() -> None:
    cluster = FakeCluster()
    late = {"muster.dev/late": '{"launcher": {"nvidia.com/gpu": "1"}}'}
    cluster.add(node("n1", gpus=4), volcano_group("low", 4), *gang("low", 4, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("high", 3, annotations=late, created=9))
        cluster.add(*gang("high", 3, gpus=1, priority=9, role="worker"))
        await cluster.settle(5)

    assert len(cluster.bound("high")) == 3
    assert cluster.bound("low") == {}


async def test_a_minimum_larger_than_the_cluster_costs_nothing_and_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uids: list[str] = []

    def placeholder(likeness: Pod, uid: str) -> Pod:
        assert len(uids) < 10
        uids.append(uid)
        return likeness

    monkeypatch.setattr(holds, "_placeholder", placeholder)
    cluster = await two_gangs()
    async with cluster.running():
        cluster.add(volcano_group("high", 2**31 - 1))
        await cluster.settle(20)
        assert cluster.reason("high") == (
            f"4 of {2**31 - 1} members exist; needs {2**31 - 5} more members"
        )
        cluster.add(volcano_group("high", 4))
        await cluster.settle()

    assert uids == []
    assert cluster.reason("high") == ""
    assert len(cluster.bound()) == 8


async def test_room_is_held_for_missing_members_once_the_nodes_could_hold_them() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8, pods=2), volcano_group("g", 2), *gang("g", 2, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("g", 5))
        await cluster.settle()
        assert cluster.reason("g") == "2 of 5 members exist; needs 3 more members"
        cluster.add(node("n2", gpus=3))
        await cluster.settle()
        cluster.add(pod("rival", gpus=1, created=50))
        await cluster.settle()

    assert cluster.bound("rival") == {}
    assert "room for 3 pods is held for default/g" in cluster.reason("rival")


async def test_a_half_bound_gang_is_released_even_if_no_nodes_could_hold_its_missing_members() -> (
    None
):
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1, pods=1), node("n2", gpus=2, pods=2))
    cluster.fault = lambda pod, node: Unreachable("cut off") if node == "n2" else None
    cluster.add(volcano_group("g", 3), *gang("g", 3, gpus=1))
    async with cluster.running():
        await cluster.settle(0.5)
        (there,) = cluster.bound()
    cluster.scheduler(State(cluster.settings))  # another, which knows of no bind that failed
    cluster.add(*cluster.nodes.values(), *cluster.groups.values(), *cluster.pods.values())
    async with cluster.running():
        cluster.add(node("n2", gpus=2, pods=2, unschedulable=True))
        await cluster.settle(1)
        cluster.delete_node("n2")
        for name in {"g-0", "g-1", "g-2"} - {there}:
            cluster.delete_pod(name)
        await cluster.settle(10)

    assert [d.reason for d in cluster.deletes] == ["Released"]
