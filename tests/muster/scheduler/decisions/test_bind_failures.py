"""Binds that the server refuses again and again: said, slowed down, and half gangs released."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kubekit.objects.core import Pod
from kubekit.request_errors import Forbidden
from muster.contract.gang import GangKey
from muster.scheduler.decisions.bind_failures import BindFailure, bind_failed
from muster.scheduler.effects import waiting_line_publisher
from muster.scheduler.effects.waiting_line_publisher import set_gauges, waiting_gangs
from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, Fault, cluster_with_gang
from tests.muster.scheduler.random_history import RandomHistory
from tests.muster.words import short

pytestmark = pytest.mark.looptime


def refusing(*names: str, tries: list[float] | None = None) -> Fault:
    """A policy that lets nobody of these names be bound."""

    def fault(pod: Pod, node: str) -> Exception | None:
        if pod.metadata.name not in names:
            return None
        if tries is not None:
            tries.append(asyncio.get_running_loop().time())
        return Forbidden("the policy says no", status=403)

    return fault


def remake(cluster: FakeCluster) -> Callable[[str, str], object]:
    """What a controller does with members that are deleted."""

    def evict(name: str, namespace: str) -> None:
        cluster.delete_pod(name, namespace)
        cluster.add(pod(name, group="g", gpus=1, created=2_000_000))

    return evict


async def test_a_gang_with_a_member_that_can_never_be_bound_is_released_and_says_why() -> None:
    cluster = cluster_with_gang(4)
    cluster.fault = refusing("g-2")
    async with cluster.running():
        await cluster.settle(2)
        assert "the policy says no" in cluster.reason("g")
        assert "g-2" in cluster.reason("g")
        set_gauges(cluster.state)
        assert waiting_line_publisher.HALF_BOUND._value.get() == 1
        await cluster.settle(8)

    assert [d.reason for d in cluster.deletes] == ["Released"]
    assert cluster.bound("g") == {}
    assert "the policy says no" in cluster.deletes[0].why


async def test_a_released_gang_is_not_bound_and_released_for_ever() -> None:
    cluster = cluster_with_gang(4)
    cluster.evict = remake(cluster)
    cluster.fault = refusing("g-2")
    await cluster.run(600)

    assert 1 < len(cluster.deletes) < 12


async def test_a_released_gang_is_bound_whole_soon_after_the_policy_is_gone() -> None:
    cluster = cluster_with_gang(4)
    cluster.evict = remake(cluster)
    cluster.fault = refusing("g-2")
    async with cluster.running():
        await cluster.settle(12)
        cluster.fault = lambda pod, node: None
        await cluster.settle(20)

    assert len(cluster.bound("g")) == 4
    assert cluster.reason("g") == ""


async def test_binds_that_are_all_rejected_are_retried_less_and_less_often() -> None:
    cluster = cluster_with_gang(4)
    tries: list[float] = []
    cluster.fault = refusing(*(f"g-{i}" for i in range(4)), tries=tries)
    async with cluster.running():
        await cluster.settle(300)
        assert len(tries) < 4 * 16
        assert "the policy says no" in cluster.reason("g")
        (row,) = waiting_gangs(cluster.state, 300.0)
        assert row.code == "BindFailed"
        cluster.fault = lambda pod, node: None
        await cluster.settle(61)

    assert len(cluster.bound("g")) == 4
    assert cluster.reason("g") == ""


async def test_a_half_bound_gang_without_a_controller_is_not_deleted_and_says_so() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 4), *gang("g", 4, gpus=1, controller=""))
    cluster.fault = refusing("g-2")
    async with cluster.running():
        await cluster.settle(60)
        set_gauges(cluster.state)
        assert waiting_line_publisher.HALF_BOUND._value.get() == 1

    assert len(cluster.bound("g")) == 3
    assert cluster.deletes == []
    assert "no controller" in cluster.reason("g")


async def test_a_half_bound_gang_without_controller_or_room_is_not_deleted_and_says_so() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1), node("n2", gpus=1), volcano_group("g", 2))
    cluster.add(*gang("g", 2, gpus=1, controller=""))

    def lose_a_node(pod: Pod, name: str) -> Exception | None:
        if pod.metadata.name == "g-1" and name in cluster.nodes:
            cluster.delete_node(name)
            return Forbidden("no", status=403)
        return None

    cluster.fault = lose_a_node
    async with cluster.running():
        await cluster.settle(30)
        set_gauges(cluster.state)
        assert waiting_line_publisher.HALF_BOUND._value.get() == 1

    assert "no controller" in cluster.reason("g")
    assert short(1) in cluster.reason("g")


@pytest.mark.parametrize("order", [("g-0", "g-1"), ("g-1", "g-0")])
async def test_the_reason_names_the_same_pod_in_whichever_order_the_answers_come(
    order: tuple[str, ...],
) -> None:
    state = cluster_with_gang(2).state
    (found,) = state.index.gangs.values()
    members = {row.metadata.name: row for row in found.pods.values()}
    for plan in ("first", "second"):
        for name in order:
            failure = BindFailure(plan=plan, why="the policy says no")
            bind_failed(state, found.key, members[name], 0.0, failure)

    retry = state.record(found.key).retry
    assert retry is not None
    assert retry.message == "g-0 could not be bound: the policy says no"


def test_a_gang_whose_bind_stays_in_flight_past_its_release_is_released_when_it_lands() -> None:
    world = RandomHistory(preempt=False)
    world.add_node(2)
    world.arrive(2, 2, 1, 0)
    world.decide()
    world.lose_node(0)
    world.land(0, "refused")
    world.decide()
    world.decide(40)
    assert len(world.in_flight) == 1
    world.land(0, "bound")
    assert len(world.bound("g002")) == 1

    world.decide()

    assert world.bound("g002") == []


def test_a_gang_that_pauses_beyond_its_release_with_a_bind_in_flight_is_not_due_at_once() -> None:
    world = RandomHistory(preempt=False)
    world.add_node(2)
    world.arrive(2, 2, 1, 0)
    world.decide()
    for _ in range(10):
        if len(world.in_flight) == 2:
            world.land(1, "refused")
        world.decide(1)
    assert world.state.records[GangKey("volcano", "default", "g002")].retry is not None
    assert list(world.state.due(world.now)) == []
