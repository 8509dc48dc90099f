"""Room is kept for the first starving gang in line: which, from whom, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.scheduler.settings import Settings
from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster

pytestmark = pytest.mark.looptime


def job(name: str, size: int, *, created: float, **each: Any) -> list[Any]:
    return [volcano_group(name, size, created=created), *gang(name, size, created=created, **each)]


def full_cluster(nodes: int, *, gpus: int = 8, **each: Any) -> FakeCluster:
    """Every node is filled by one pod: `old0` on `n0`, and so on; 20 s are too long a wait."""
    cluster = FakeCluster(Settings(starvation_after=20.0, preempt=False))
    cluster.add(*(node(f"n{i}", gpus=gpus) for i in range(nodes)))
    on = ({"nodeName": f"n{i}"} for i in range(nodes))
    cluster.add(*(pod(f"old{i}", gpus=gpus, spec=spec, **each) for i, spec in enumerate(on)))
    return cluster


def kept(cluster: FakeCluster) -> dict[str, dict[str, int]]:
    """The nodes with kept room, and the amounts there."""
    rooms = cluster.state.kept.rooms if cluster.state.kept is not None else ()
    return {room.node: dict(room.amounts) for room in rooms}


async def test_freed_nodes_go_to_the_first_starving_gang_though_all_behind_it_starve_too() -> None:
    cluster = full_cluster(4)
    cluster.add(*job("big", 4, gpus=8, created=1))
    cluster.add(*(pod(f"small{i}", gpus=8, created=2 + i) for i in range(8)))
    async with cluster.running():
        await cluster.settle(60)
        for i in range(4):
            cluster.finish(f"old{i}", "Succeeded")
            await cluster.settle(5)

    assert len(cluster.bound("big")) == 4
    assert cluster.bound("small") == {}


async def test_no_more_nodes_are_kept_than_the_gang_needs() -> None:
    cluster = full_cluster(24)
    cluster.add(*job("big", 6, gpus=8, created=1))
    async with cluster.running():
        await cluster.settle(60)
        cluster.add(*(pod(f"small{i}", gpus=8, created=2 + i) for i in range(18)))
        await cluster.settle()
        nodes = set(kept(cluster))
        assert len(nodes) == 6
        for i in sorted(set(range(24)) - {int(name[1:]) for name in nodes}):
            cluster.finish(f"old{i}", "Succeeded")
            await cluster.settle()

    # The first six that are free go to the gang, the next twelve to those behind it.
    assert len(cluster.bound("big")) == 6
    assert len(cluster.bound("small")) == 12


async def test_a_gang_that_needs_only_cpus_does_not_wait_behind_one_that_lacks_only_gpus() -> None:
    cluster = full_cluster(2, cpu="48")  # of 64
    cluster.add(*job("big", 2, gpus=8, cpu="48", created=1))
    async with cluster.running():
        await cluster.settle(60)
        assert len(kept(cluster)) == 2
        cluster.add(*job("cpus", 4, cpu="8", created=2))
        await cluster.settle()
        assert len(cluster.bound("cpus")) == 4
        cluster.add(pod("more", cpu="1", created=3))
        await cluster.settle()
        assert cluster.bound("more") == {}
        for i in range(2):
            cluster.finish(f"old{i}", "Succeeded")
        await cluster.settle()

    assert len(cluster.bound("big")) == 2
    assert cluster.bound("more") == {}


async def test_cpus_that_the_gang_would_have_to_wait_for_are_kept() -> None:
    cluster = full_cluster(1, cpu="8")
    cluster.add(*job("big", 1, gpus=8, cpu="48", created=1))
    async with cluster.running():
        await cluster.settle(60)
        cluster.add(pod("fits", cpu="16", created=2), pod("not", cpu="9", created=3))
        await cluster.settle()
        assert set(cluster.bound()) == {"old0", "fits"}  # 64 are 48 for the gang and 16 for others
        cluster.finish("old0", "Succeeded")
        await cluster.settle()

    assert set(cluster.bound()) == {"big-0", "fits"}


async def test_a_gang_that_stands_behind_an_equal_one_does_not_claim_its_room() -> None:
    cluster = full_cluster(1)
    cluster.add(*job("first", 1, gpus=8, created=2))
    async with cluster.running():
        await cluster.settle(60)
        assert "is kept for it" in cluster.reason("first")
        cluster.add(*job("older", 1, gpus=8, created=1))
        await cluster.settle(60)

    assert "is kept for it" in cluster.reason("older")
    assert "is kept for it" not in cluster.reason("first")


async def test_both_gangs_say_on_which_or_how_many_nodes_room_is_kept() -> None:
    cluster = full_cluster(3)
    cluster.add(*job("big", 2, gpus=8, created=1))
    async with cluster.running():
        await cluster.settle(60)
        cluster.add(*job("small", 1, gpus=8, created=2))
        await cluster.settle()

    assert cluster.reason("big").endswith(
        "; has waited too long: room on 2 nodes is kept for it (n0, n1)"
    )
    assert cluster.reason("small").endswith(
        "; room on 2 nodes is kept for default/big, which has waited too long; only a higher "
        "priority goes before it"
    )


async def test_the_nodes_stay_the_same_while_pods_come_and_go_elsewhere() -> None:
    cluster = full_cluster(6, gpus=4)
    cluster.add(*job("big", 2, gpus=4, created=1))
    async with cluster.running():
        await cluster.settle(60)
        nodes = set(kept(cluster))
        for i in range(6):
            name = f"old{i}"
            if f"n{i}" not in nodes:
                cluster.add(pod(f"short{i}", gpus=2, priority=9, created=2 + i))
                cluster.finish(name, "Succeeded")
                await cluster.settle(0.5)
                assert set(kept(cluster)) == nodes
                break


async def test_a_node_that_is_free_replaces_one_for_which_the_gang_would_wait() -> None:
    cluster = full_cluster(3)
    cluster.add(*job("big", 2, gpus=8, created=1))
    async with cluster.running():
        await cluster.settle(60)
        assert set(kept(cluster)) == {"n0", "n1"}
        cluster.add(pod("small", gpus=8, created=2))
        cluster.finish("old2", "Succeeded")
        await cluster.settle()
        assert set(kept(cluster)) == {"n0", "n2"}
        cluster.finish("old1", "Succeeded")
        await cluster.settle()

    assert len(cluster.bound("big")) == 2
    assert cluster.bound("small") == {}


@pytest.mark.parametrize("loss", ["delete", "cordon"])
async def test_another_node_is_chosen_when_one_is_lost(loss: str) -> None:
    cluster = full_cluster(3)
    cluster.add(*job("big", 2, gpus=8, created=1))
    async with cluster.running():
        await cluster.settle(60)
        if loss == "delete":
            cluster.delete_node("n0")
        else:
            cluster.add(node("n0", gpus=8, unschedulable=True))
        await cluster.settle()

        assert set(kept(cluster)) == {"n1", "n2"}


async def test_another_node_is_chosen_when_a_gang_before_it_takes_one() -> None:
    cluster = full_cluster(3)
    cluster.add(*job("big", 2, gpus=8, created=1))
    async with cluster.running():
        await cluster.settle(60)
        cluster.add(pod("urgent", gpus=8, priority=5, created=2))
        cluster.finish("old0", "Succeeded")
        await cluster.settle()

        assert cluster.bound("urgent") == {"urgent": "n0"}
        assert set(kept(cluster)) == {"n1", "n2"}


async def test_host_ports_are_kept_with_the_room() -> None:
    cluster = FakeCluster(Settings(starvation_after=20.0))
    cluster.add(node("n0", gpus=2), node("n1", gpus=2))
    cluster.add(pod("old", gpus=2, spec={"nodeName": "n0"}))
    cluster.add(*job("big", 2, gpus=1, ports=(8080,), created=1))
    async with cluster.running():
        await cluster.settle(60)
        cluster.add(pod("rival", ports=(8080,), created=2), pod("other", ports=(9090,), created=3))
        await cluster.settle()
        assert set(cluster.bound()) == {"old", "other"}
        cluster.finish("old", "Succeeded")
        await cluster.settle()

    assert len(cluster.bound("big")) == 2


async def test_room_is_kept_for_the_next_starving_gang_once_the_first_has_started() -> None:
    cluster = full_cluster(2)
    cluster.add(*job("first", 2, gpus=8, created=1), *job("second", 2, gpus=8, created=2))
    cluster.add(*(pod(f"small{i}", gpus=8, created=3 + i) for i in range(4)))
    async with cluster.running():
        await cluster.settle(60)
        for i in range(2):
            cluster.finish(f"old{i}", "Succeeded")
        await cluster.settle()
        assert len(cluster.bound("first")) == 2
        for i in range(2):
            cluster.finish(f"first-{i}", "Succeeded")
            await cluster.settle()

    assert len(cluster.bound("second")) == 2


async def test_pods_of_services_and_of_many_gangs_are_not_waited_for_if_others_leave() -> None:
    cluster = FakeCluster(Settings(starvation_after=20.0))
    cluster.add(*(node(f"n{i}", gpus=2) for i in range(3)))
    cluster.add(pod("web", gpus=2, controller="ReplicaSet", spec={"nodeName": "n0"}))
    cluster.add(*(pod(f"one{i}", gpus=1, spec={"nodeName": "n1"}) for i in range(2)))
    cluster.add(pod("old", gpus=2, spec={"nodeName": "n2"}))
    cluster.add(*job("big", 1, gpus=2, created=1))
    await cluster.run(60)

    assert set(kept(cluster)) == {"n2"}
