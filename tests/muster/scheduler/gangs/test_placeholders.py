"""Stand-ins for members that do not exist: they keep free room, and no more than that."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.core import Pod
from kubekit.objects.meta import OwnerReference
from kubekit.request_errors import Unreachable
from muster.scheduler.gangs import holds
from muster.scheduler.state import State
from tests.muster.scheduler.builders import GPU, budget, gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, replace

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

    monkeypatch.setattr(holds, "placeholder", placeholder)
    cluster = await two_gangs()
    async with cluster.running():
        cluster.add(volcano_group("high", 2**31 - 1))
        await cluster.settle(20)
        assert cluster.code("high") == "NotEnoughMembers"
        assert str(2**31 - 5) in cluster.reason("high")
        cluster.add(volcano_group("high", 4))
        await cluster.settle()

    assert uids == []
    assert cluster.reason("high") == ""
    assert len(cluster.bound()) == 8


@pytest.mark.parametrize("dialect", ["volcano", "pdb", "labels"])
async def test_a_raised_minimum_holds_no_room_for_members_that_never_were_there(
    dialect: str,
) -> None:
    def group(size: int) -> list[Any]:
        if dialect == "labels":
            member = pod(f"g-x{size}", group="g", dialect=f"labels:{size}", gpus=1)
            return [member]
        declared = {"volcano": volcano_group("g", size), "pdb": budget("g", size, {"gang": "g"})}
        return [declared[dialect]]

    cluster = FakeCluster()
    marks = "labels:2" if dialect == "labels" else dialect
    cluster.add(node("n1", gpus=8), *(() if dialect == "labels" else group(2)))
    cluster.add(*gang("g", 2, gpus=1, dialect=marks))
    async with cluster.running():
        await cluster.settle()
        cluster.add(*group(8))
        await cluster.settle()
        assert "needs" in cluster.reason("g")
        cluster.add(*(pod(f"rival-{i}", gpus=1, created=50) for i in range(5)))
        await cluster.settle()
        assert len(cluster.bound("rival")) == 5
        cluster.delete_pod("g-1")  # its own room is held, as before
        cluster.add(pod("late", gpus=2, created=60))
        await cluster.settle(20)

    assert cluster.bound("late") == {}
    assert sum(map(len, cluster.state.snapshot.held_for.values())) == 1


async def test_members_that_a_raised_minimum_adds_start_once_they_exist() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 2), *gang("g", 2, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("g", 4), pod("g-2", gpus=1, group="g"))
        await cluster.settle()
        assert cluster.bound("g-2") == {}
        cluster.add(pod("g-3", gpus=1, group="g"))
        await cluster.settle()
        assert len(cluster.bound("g")) == 4
        cluster.finish("g-3", "Failed")
        await cluster.settle(20)

    assert sum(map(len, cluster.state.snapshot.held_for.values())) == 1


async def test_a_restarted_scheduler_holds_the_room_of_members_that_died_meanwhile() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 4), *gang("g", 4, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.delete_pod("g-2")
    cluster.restart()
    cluster.add(pod("rival", gpus=1, created=50))
    async with cluster.running():
        await cluster.settle(20)

    assert cluster.bound("rival") == {}


async def test_a_placeholder_is_like_a_member_that_had_a_node() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8), volcano_group("g", 3), *gang("g", 3, gpus=1))
    async with cluster.running():
        await cluster.settle()
        gated = {"schedulingGates": [{"name": "wait"}]}
        cluster.add(pod("a-giant", gpus=5, group="g", spec=gated))
        cluster.delete_pod("g-1")
    cluster.restart()
    async with cluster.running():
        await cluster.settle(5)
        held = [
            slot.cls.requests["nvidia.com/gpu"]
            for slots in cluster.state.snapshot.held_for.values()
            for slot in slots.values()
        ]

    assert held == [1]


@pytest.mark.parametrize(
    ("late", "held"),
    [
        ('{"launcher": {"nvidia.com/gpu": "1", "cpu": "2"}}', (1, 2000)),
        ('{"launcher": {"nvidia.com/gpu": "999", "cpu": "1e9"}}', (2, 2000)),
        ('{"launcher": {"nvidia.com/gpu": "1"}, "b": {"nvidia.com/gpu": "3"}}', (1, 0)),
        ('{"launcher": {"nvidia.com/gpu": "-7", "cpu": -1}}', (0, 0)),
    ],
)
async def test_late_members_get_no_more_room_than_the_others(
    late: str, held: tuple[int, int]
) -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8), volcano_group("g", 2, annotations={"muster.dev/late": late}))
    cluster.add(*gang("g", 2, gpus=1, role="worker"))
    async with cluster.running():
        await cluster.settle()
        slots = [s for row in cluster.state.snapshot.held_for.values() for s in row.values()]

    sums = [sum(slot.cls.requests.get(name, 0) for slot in slots) for name in (GPU, "cpu")]
    assert tuple(sums) == held


@pytest.mark.parametrize(
    "owner", [None, ("MPIJob", "other"), ("TFJob", "g")], ids=["nobody", "another", "a TFJob"]
)
async def test_a_late_member_of_a_group_that_is_not_an_mpi_jobs_own_gets_no_room(
    owner: tuple[str, str] | None,
) -> None:
    group = volcano_group("g", 2, annotations={"muster.dev/late": '{"launcher": {"cpu": "1"}}'})
    owners = (
        () if owner is None else (OwnerReference(kind=owner[0], name=owner[1], controller=True),)
    )
    metadata = replace(group.metadata, owner_references=owners)
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8), replace(group, metadata=metadata), *gang("g", 2, gpus=1))
    async with cluster.running():
        await cluster.settle()

    assert len(cluster.bound("g")) == 2
    assert not cluster.state.snapshot.held_for


async def test_a_small_launcher_has_room_beside_members_that_request_nothing() -> None:
    cluster = FakeCluster()
    late = {"muster.dev/late": '{"launcher": {"cpu": "500m", "memory": "1Gi"}}'}
    cluster.add(node("n1"), volcano_group("g", 2, annotations=late))
    cluster.add(*gang("g", 2, cpu="0", memory="0", role="worker"))
    async with cluster.running():
        await cluster.settle()
        (slots,) = cluster.state.snapshot.held_for.values()

    assert [slot.cls.requests["cpu"] for slot in slots.values()] == [500]


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
