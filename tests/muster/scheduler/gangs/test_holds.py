"""Rooms kept for members to come: how long, for whom, and when not."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from kubekit.objects.conditions import disruption_condition
from kubekit.objects.meta import Condition, Key
from muster.scheduler.settings import Settings
from tests.muster.scheduler.builders import START, gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster

pytestmark = pytest.mark.looptime


async def full(settings: Settings | None = None, **group: object) -> FakeCluster:
    """A gang of four that fills a node, whole, and a rival that wants one GPU."""
    cluster = FakeCluster(settings)
    cluster.add(node("n1", gpus=4))
    cluster.add(volcano_group("g", 4, **group), *gang("g", 4, gpus=1))  # type: ignore[arg-type]
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound("g")) == 4
        cluster.add(pod("rival", gpus=1, created=100))
        await cluster.settle()
    return cluster


@pytest.mark.parametrize("death", ["deleted", "failed"])
async def test_a_replacement_gets_the_room_of_the_dead_member(death: str) -> None:
    cluster = await full()
    async with cluster.running():
        if death == "deleted":
            cluster.delete_pod("g-1")
        else:
            cluster.finish("g-1", "Failed")
        await cluster.settle(20)
        assert cluster.bound("rival") == {}
        cluster.add(pod("g-1b", gpus=1, group="g", created=200))
        await cluster.settle()

    assert "g-1b" in cluster.bound()
    assert cluster.bound("rival") == {}


async def test_the_room_of_a_deleted_member_is_held_for_half_a_minute_without_a_replacement() -> (
    None
):
    cluster = await full()
    async with cluster.running():
        cluster.delete_pod("g-1")
        await cluster.settle(29)
        assert cluster.bound("rival") == {}
        await cluster.settle(2)
        assert cluster.bound("rival") == {"rival": "n1"}


async def test_the_room_of_a_failed_member_is_held_for_five_minutes() -> None:
    cluster = await full()
    async with cluster.running():
        cluster.finish("g-1", "Failed")
        await cluster.settle(299)
        assert cluster.bound("rival") == {}
        await cluster.settle(2)
        assert cluster.bound("rival") == {"rival": "n1"}


async def test_a_gang_can_set_how_long_its_room_is_held() -> None:
    cluster = await full(annotations={"muster.dev/hold": "1m"})
    async with cluster.running():
        cluster.finish("g-1", "Failed")
        await cluster.settle(59)
        assert cluster.bound("rival") == {}
        await cluster.settle(2)
        assert cluster.bound("rival") == {"rival": "n1"}


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        (Settings(), 900),
        (Settings(max_hold_seconds=60), 300),  # what the administrator gives to all
        (Settings(hold_seconds=30, max_hold_seconds=60), 60),
        (Settings(hold_seconds=1000), 1000),
    ],
)
@pytest.mark.parametrize("asked", ["277777h", "999999999"])
async def test_a_gang_holds_room_for_no_longer_than_the_administrator_allows(
    settings: Settings, seconds: int, asked: str
) -> None:
    cluster = await full(settings, annotations={"muster.dev/hold": asked})
    async with cluster.running():
        cluster.finish("g-1", "Failed")
        await cluster.settle(seconds - 1)
        assert cluster.bound("rival") == {}
        await cluster.settle(2)
        assert cluster.bound("rival") == {"rival": "n1"}


async def test_a_gang_can_ask_to_be_restarted_when_its_hold_ends() -> None:
    cluster = await full(annotations={"muster.dev/on-hold-end": "restart"})
    async with cluster.running():
        cluster.delete_pod("g-1")
        await cluster.settle(31)

    assert [d.reason for d in cluster.deletes] == ["Released"]
    assert cluster.bound("g") == {}


async def test_a_member_that_terminates_slowly_keeps_its_room_and_leaves_it_to_the_gang() -> None:
    cluster = await full()
    cluster.add(node("n2", gpus=1, unschedulable=True))
    async with cluster.running():
        cluster.terminate("g-1")
        await cluster.settle(60)
        cluster.delete_pod("g-1")
        await cluster.settle(5)
        assert cluster.bound("rival") == {}


async def test_a_member_that_succeeded_leaves_its_room_to_others() -> None:
    cluster = await full()
    async with cluster.running():
        cluster.finish("g-1", "Succeeded")
        await cluster.settle()
        assert cluster.bound("rival") == {"rival": "n1"}
        cluster.delete_pod("g-1")  # cleaned up: it is still remembered as done
        await cluster.settle()

    assert cluster.state.snapshot.held_for == {}


async def test_no_room_is_held_once_the_group_is_deleted() -> None:
    cluster = await full()
    async with cluster.running():
        cluster.delete_group("g")
        cluster.delete_pod("g-1")
        await cluster.settle()

    assert cluster.bound("rival") == {"rival": "n1"}


async def test_a_hold_ends_when_the_group_is_deleted() -> None:
    cluster = await full()
    async with cluster.running():
        cluster.delete_pod("g-1")
        await cluster.settle()
        assert cluster.bound("rival") == {}
        cluster.delete_group("g")
        await cluster.settle()

    assert cluster.bound("rival") == {"rival": "n1"}


@pytest.mark.parametrize("death", ["deleted", "failed", "terminated"])
async def test_a_gang_that_is_deleted_whole_frees_its_room_at_once(death: str) -> None:
    cluster = await full()
    async with cluster.running():
        for i in range(4):
            if death == "terminated":
                cluster.terminate(f"g-{i}")
                await cluster.settle(0.1)
        for i in range(4):
            if death == "failed":
                cluster.finish(f"g-{i}", "Failed")
            else:
                cluster.delete_pod(f"g-{i}")
            await cluster.settle(0.1)
        await cluster.settle(0.5)

    assert cluster.bound("rival") == {"rival": "n1"}
    assert cluster.state.snapshot.held_for == {}


@pytest.mark.parametrize("death", ["deleted", "failed"])
async def test_a_gang_that_is_restarted_as_a_whole_gets_its_room_back(death: str) -> None:
    cluster = await full(annotations={"muster.dev/restart": "gang"})
    async with cluster.running():
        for i in range(4):
            if death == "failed":
                cluster.finish(f"g-{i}", "Failed")
                await cluster.settle(0.1)
            cluster.delete_pod(f"g-{i}")
            await cluster.settle(0.1)
        await cluster.settle(20)
        assert cluster.bound("rival") == {}
        cluster.add(*(pod(f"g-{i}", gpus=1, group="g", created=200) for i in range(4)))
        await cluster.settle()

    assert len(cluster.bound("g")) == 4
    assert cluster.bound("rival") == {}


async def test_a_standby_that_takes_over_keeps_the_room_of_a_gang_that_restarts_as_a_whole() -> (
    None
):
    cluster = await full(annotations={"muster.dev/restart": "gang"})
    cluster.restart()
    for i in range(4):
        cluster.delete_pod(f"g-{i}")
    async with cluster.running():
        await cluster.settle(20)
        assert cluster.bound("rival") == {}
        cluster.add(*(pod(f"g-{i}", gpus=1, group="g", created=200) for i in range(4)))
        await cluster.settle()

    assert len(cluster.bound("g")) == 4


async def test_the_room_of_a_gang_that_is_not_restarted_after_all_is_freed() -> None:
    cluster = await full(annotations={"muster.dev/restart": "gang"})
    async with cluster.running():
        for i in range(4):
            cluster.delete_pod(f"g-{i}")
        await cluster.settle(31)

    assert cluster.bound("rival") == {"rival": "n1"}


async def test_a_lost_node_drops_the_hold_and_the_gang_gets_the_next_room() -> None:
    cluster = await full()
    async with cluster.running():
        cluster.delete_pod("g-1")
        cluster.delete_node("n1")
        for name in ("g-0", "g-2", "g-3"):
            cluster.delete_pod(name)
        await cluster.settle()
        for i in range(4):
            cluster.add(pod(f"g-{i}", gpus=1, group="g", created=300 + i))
        cluster.add(node("n2", gpus=4))
        await cluster.settle()

    assert set(cluster.bound().values()) == {"n2"}
    assert len(cluster.bound("g")) == 4


async def test_a_cordoned_node_loses_the_hold_and_room_on_another_node_is_held_at_once() -> None:
    cluster = await full()
    async with cluster.running():
        cluster.delete_pod("g-1")
        await cluster.settle()
        cluster.add(node("n1", gpus=4, unschedulable=True), node("n2", gpus=1))
        await cluster.settle()
        assert cluster.bound("rival") == {}
        cluster.add(pod("g-1b", gpus=1, group="g", created=200))
        await cluster.settle()

    assert cluster.bound()["g-1b"] == "n2"


async def test_a_higher_priority_takes_a_hold_only_by_evicting_the_gang() -> None:
    cluster = await full()
    async with cluster.running():
        cluster.delete_pod("g-1")
        cluster.add(pod("urgent", gpus=1, priority=10, created=200))
        await cluster.settle(5)

    assert cluster.bound("urgent") == {"urgent": "n1"}
    assert {d.reason for d in cluster.deletes} == {"Preempted"}
    assert cluster.bound("g") == {}


async def test_a_gang_that_waits_for_held_room_says_for_which_gang_and_until_when() -> None:
    cluster = await full()
    async with cluster.running():
        cluster.state.wall_offset = START.timestamp() - asyncio.get_running_loop().time()
        cluster.finish("g-1", "Failed")
        cluster.add(pod("late", gpus=1, created=200))
        await cluster.settle()

    assert "room for 1 pod is held for default/g until 00:05:00Z" in cluster.reason("late")
    assert "held" not in cluster.reason("g")


async def test_a_hold_without_the_resource_that_a_gang_lacks_is_not_named() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4))
    cluster.add(volcano_group("loop", 2), *gang("loop", 2), pod("train", gpus=3))
    async with cluster.running():
        await cluster.settle()
        cluster.finish("loop-1", "Failed")
        cluster.add(pod("late", gpus=2, created=200))
        await cluster.settle()

    assert "short 2 nvidia.com/gpu" in cluster.reason("late")
    assert "held" not in cluster.reason("late")


async def test_surplus_that_waits_for_held_room_says_so_too() -> None:
    cluster = await full()
    async with cluster.running():
        cluster.finish("g-1", "Failed")
        cluster.add(node("n2", gpus=1), volcano_group("h", 1), *gang("h", 2, gpus=1, created=200))
        await cluster.settle()

    assert "held for default/g until" in cluster.reason("h")


def stop(cluster: FakeCluster, name: str, *, with_cluster: bool = True) -> None:
    """The pod fails, by default because its cluster is stopped."""
    cluster.finish(name, "Failed")
    stopped = cluster.pods[Key("default", name)]
    if with_cluster:
        notice = disruption_condition("TerminationByKubelet", "stopped", START)
        conditions = [msgspec.convert(notice, Condition)]
        cluster.add(replace(stopped, status=replace(stopped.status, conditions=conditions)))


async def replaced(cluster: FakeCluster, members: int = 4) -> None:
    """The owner deletes the failed pods, and some time later creates new ones."""
    for i in range(members):
        cluster.delete_pod(f"g-{i}")
        await cluster.settle(1)
    for i in range(members):
        cluster.add(pod(f"g-{i}", gpus=1, group="g", created=200))
        await cluster.settle(1)


@pytest.mark.parametrize("restart", ["gang", "replica"])
async def test_a_gang_that_was_stopped_with_its_cluster_has_its_room_again(restart: str) -> None:
    cluster = await full(annotations={"muster.dev/restart": restart})
    for i in range(4):
        stop(cluster, f"g-{i}")
    cluster.restart()
    async with cluster.running():
        await cluster.settle(20)
        assert cluster.bound("rival") == {}
        await replaced(cluster)

    assert len(cluster.bound("g")) == 4
    assert cluster.bound("rival") == {}


async def test_a_new_scheduler_keeps_room_for_failed_members_only_if_all_of_them_come_back() -> (
    None
):
    for restart, kept in (("replica", False), ("gang", True)):
        cluster = await full(annotations={"muster.dev/restart": restart})
        for i in range(4):
            stop(cluster, f"g-{i}", with_cluster=False)
        cluster.restart()
        await cluster.run(20)
        assert (cluster.bound("rival") == {}) is kept


async def test_the_room_of_a_stopped_gang_is_not_held_without_end_or_without_its_group() -> None:
    cluster = await full()
    for i in range(4):
        stop(cluster, f"g-{i}")
    cluster.restart()
    async with cluster.running():
        await cluster.settle(299)
        assert cluster.bound("rival") == {}
        await cluster.settle(2)
        assert cluster.bound("rival") == {"rival": "n1"}

    ended = await full()
    for i in range(4):
        stop(ended, f"g-{i}")
    ended.delete_group("g")
    ended.restart()
    await ended.run(1)
    assert ended.bound("rival") == {"rival": "n1"}


async def test_the_room_of_a_stopped_gang_that_others_use_by_now_is_not_taken_from_them() -> None:
    cluster = await full()
    for i in range(4):
        stop(cluster, f"g-{i}")
    cluster.add(pod("other", gpus=1, spec={"nodeName": "n1"}))
    cluster.restart()
    async with cluster.running():
        await cluster.settle()
        assert cluster.state.snapshot.held_for == {}
        await replaced(cluster)

    assert cluster.bound("g") == {}
    assert set(cluster.bound()) == {"other", "rival"}
