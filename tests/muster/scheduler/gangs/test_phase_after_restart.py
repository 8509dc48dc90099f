"""What a scheduler that has just started makes of gangs that another one left behind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubekit.objects.core import Pod
from kubekit.request_errors import Unreachable
from muster.contract.pod_groups import PodGroupStatus
from muster.scheduler.effects.reporter import group_status
from muster.scheduler.gangs import plan_annotation
from muster.scheduler.gangs.plan_annotation import PlanMark
from tests.muster.scheduler.builders import (
    coscheduling_group,
    gang,
    native_group,
    node,
    pod,
    volcano_group,
)
from tests.muster.scheduler.fake_cluster import FakeCluster
from tests.muster.scheduler.random_history import RandomHistory

pytestmark = pytest.mark.looptime


async def four_nodes(members: int, dialect: str = "volcano") -> FakeCluster:
    """A gang that needs four, one to each node, and what is beyond that waits."""
    cluster = FakeCluster()
    cluster.add(*(node(f"n{i}", gpus=1) for i in range(4)))
    if dialect == "volcano":
        cluster.add(volcano_group("g", 4))
    cluster.add(*gang("g", members, gpus=1, dialect=dialect))
    return cluster


@pytest.mark.parametrize("dialect", ["volcano", "labels:4"])
async def test_a_whole_gang_with_surplus_that_lost_a_member_meanwhile_is_not_released(
    dialect: str,
) -> None:
    cluster = await four_nodes(5, dialect)
    await cluster.run()
    (lost, where), *rest = cluster.bound("g").items()
    cluster.delete_node(where)
    cluster.delete_pod(lost)

    cluster.restart()
    await cluster.run(60)

    assert cluster.deletes == []
    assert set(cluster.bound("g")) == {name for name, _ in rest}


def test_surplus_is_bound_once_the_minimum_is_and_its_plan_says_so() -> None:
    world = RandomHistory(preempt=False)
    world.add_node(8)
    world.arrive(3, 2, 1, 0)
    world.decide()
    world.grow(0)
    world.decide()
    assert [member.metadata.name for _, member, _ in world.in_flight] == ["g002-0", "g002-1"]

    world.land(0, "bound")
    world.decide()
    assert len(world.in_flight) == 1
    world.land(0, "bound")
    world.decide()

    assert [member.metadata.name for _, member, _ in world.in_flight] == ["g002-2", "g002-3"]
    assert {plan_annotation.read(bind.annotation) for bind, _, _ in world.in_flight} == {PlanMark()}


async def test_surplus_created_in_the_second_of_the_binds_does_not_look_half_bound() -> None:
    cluster = await four_nodes(4)
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("g-later", gpus=1, group="g"))  # times on the server are whole seconds
        await cluster.settle()
    (lost, where), *rest = cluster.bound("g").items()
    cluster.delete_node(where)
    cluster.delete_pod(lost)

    cluster.restart()
    await cluster.run(60)

    assert cluster.deletes == []
    assert set(cluster.bound("g")) == {name for name, _ in rest}


async def test_a_gang_with_surplus_whose_binds_were_cut_short_is_released() -> None:
    cluster = await four_nodes(5)
    cluster.fault = lambda pod, node: Unreachable("killed") if len(cluster.binds) >= 2 else None
    await cluster.run(0.01)
    assert len(cluster.bound("g")) == 2
    for name in set(cluster.nodes) - set(cluster.bound("g").values()):
        cluster.delete_node(name)

    cluster.fault = lambda pod, node: None
    cluster.restart()
    await cluster.run(10)

    assert [d.reason for d in cluster.deletes] == ["Released"]
    assert cluster.bound("g") == {}


async def test_a_gang_whose_binds_were_cut_short_is_released_also_if_it_lost_a_member_since() -> (
    None
):
    cluster = await four_nodes(4)
    cluster.fault = lambda pod, node: Unreachable("killed") if len(cluster.binds) >= 2 else None
    await cluster.run(0.01)
    lost, remaining = cluster.bound("g").items()
    for name in set(cluster.nodes) - {remaining[1]}:
        cluster.delete_node(name)
    cluster.delete_pod(lost[0])
    cluster.add(pod(lost[0], gpus=1, group="g", created=1_000_000.5))

    cluster.fault = lambda pod, node: None
    cluster.restart()
    await cluster.run(10)

    assert [d.reason for d in cluster.deletes] == ["Released"]
    assert cluster.bound("g") == {}


async def test_a_gang_that_was_whole_is_not_released_when_its_repair_is_cut_short() -> None:
    cluster = await four_nodes(4)
    cluster.add(node("n4", gpus=1))

    def die(pod: Pod, node: str) -> Exception | None:
        return Unreachable("killed") if len(cluster.binds) >= 5 else None

    async with cluster.running():
        await cluster.settle()
        cluster.fault = die
        lost = list(cluster.bound("g"))[:2]
        for name in lost:
            cluster.delete_pod(name)
        cluster.add(*(pod(f"g-{i}", gpus=1, group="g", created=1_000_000.5) for i in (8, 9)))
        await cluster.settle(0.01)
    assert len(cluster.bound("g")) == 3
    for name in set(cluster.nodes) - set(cluster.bound("g").values()):
        cluster.delete_node(name)

    cluster.fault = lambda pod, node: None
    cluster.restart()
    await cluster.run(60)

    assert cluster.deletes == []
    assert len(cluster.bound("g")) == 3


@pytest.mark.parametrize("dialect", ["volcano", "coscheduling", "native"])
async def test_a_member_that_succeeded_and_is_gone_is_recalled_from_the_groups_status(
    dialect: str,
) -> None:
    cluster = FakeCluster()
    make = {"volcano": volcano_group, "coscheduling": coscheduling_group, "native": native_group}
    group = make[dialect]("g", 3)  # type: ignore[operator]
    cluster.add(node("n1", gpus=3), group, *gang("g", 3, gpus=1, dialect=dialect))
    async with cluster.running():
        await cluster.settle()
        cluster.finish("g-0", "Succeeded")
        await cluster.settle()
        cluster.delete_pod("g-0")
        await cluster.settle()
    cluster.add(with_status(cluster, group))

    cluster.restart()
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("bare", gpus=1, created=9))
        await cluster.settle()

    assert set(cluster.bound()) == {"g-1", "g-2", "bare"}
    assert cluster.deletes == []


async def test_a_run_that_was_over_before_the_restart_does_not_count_for_the_next() -> None:
    cluster = FakeCluster()
    done = msgspec.structs.replace(volcano_group("g", 3), status=PodGroupStatus(succeeded=3))
    cluster.add(node("n1", gpus=2), done, *gang("g", 3, gpus=1))
    await cluster.run(60)

    assert cluster.bound() == {}
    assert cluster.code("g") == "NotEnoughRoom"
    assert "2 of 3" in cluster.reason("g")


def with_status(cluster: FakeCluster, group: Any) -> Any:
    """The group with the status that the scheduler gives it now."""
    (gang_g,) = (g for g in cluster.state.index.gangs.values() if g.key.name == "g")
    status = group_status(cluster.state, gang_g, None, "2026-01-01T00:00:00Z", "v1alpha2")
    return msgspec.structs.replace(group, status=msgspec.convert(status, PodGroupStatus))
