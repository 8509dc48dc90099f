"""The line: starvation, late members, minResources, and what is published."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from kubekit.objects.core import PriorityClass
from kubekit.objects.meta import Condition, Key, timestamp
from muster.contract import waiting_line_format
from muster.scheduler.effects import waiting_line_publisher
from muster.scheduler.settings import Settings
from tests.muster.scheduler.builders import START, gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster
from tests.muster.words import short

pytestmark = pytest.mark.looptime
replace = msgspec.structs.replace


async def test_an_impossible_gang_never_blocks_a_possible_one_behind_it() -> None:
    cluster = FakeCluster(Settings(starvation_after=10))
    cluster.add(node("n1", gpus=4))
    cluster.add(volcano_group("huge", 9, created=0), *gang("huge", 9, gpus=1))
    async with cluster.running():
        await cluster.settle(60)
        cluster.add(volcano_group("small", 4, created=5), *gang("small", 4, gpus=1))
        await cluster.settle()

    assert len(cluster.bound("small")) == 4
    assert "4 of 9" in cluster.reason("huge")


async def test_no_nodes_are_reserved_for_a_gang_that_not_even_an_empty_cluster_holds() -> None:
    cluster = FakeCluster(Settings(starvation_after=10))
    cluster.add(*(node(f"n{i}", gpus=4) for i in range(3)))
    cluster.add(pod("guest", gpus=4, priority=9))
    cluster.add(volcano_group("ports", 5, created=0), *gang("ports", 5, ports=(8080,)))
    async with cluster.running():
        await cluster.settle(60)
        cluster.add(volcano_group("small", 8, created=5), *gang("small", 8, gpus=1))
        await cluster.settle()
        assert len(cluster.bound("small")) == 8
        for i in range(3, 5):
            cluster.add(node(f"n{i}", gpus=4))
        await cluster.settle()

    assert len(cluster.bound("ports")) == 5


async def test_nodes_are_reserved_for_a_gang_that_fits_an_emptier_cluster() -> None:
    cluster = FakeCluster(Settings(starvation_after=10))
    cluster.add(node("n1", gpus=1), node("n2", gpus=1))
    cluster.add(pod("guest", ports=(8080,), controller="Job"))
    cluster.add(volcano_group("ports", 2, created=1), *gang("ports", 2, gpus=1, ports=(8080,)))
    async with cluster.running():
        await cluster.settle(60)
        cluster.add(pod("behind", gpus=1, created=5))
        await cluster.settle()
        assert cluster.bound("behind") == {}
        cluster.finish("guest", "Succeeded")
        await cluster.settle()

    assert len(cluster.bound("ports")) == 2


async def test_no_nodes_are_reserved_for_a_gang_that_pods_which_never_leave_block() -> None:
    cluster = FakeCluster(Settings(starvation_after=10))
    cluster.add(node("n1", gpus=1))
    cluster.add(pod("agent", ports=(8080,), controller="DaemonSet"))
    cluster.add(pod("ports", gpus=1, ports=(8080,), created=1))
    async with cluster.running():
        await cluster.settle(60)
        cluster.add(pod("behind", gpus=1, created=5))
        await cluster.settle()

    assert cluster.bound("behind") == {"behind": "n1"}


async def test_a_gang_is_tried_again_when_a_lost_node_makes_its_spread_even() -> None:
    cluster = FakeCluster()
    cluster.add(node("a", gpus=2, labels={"zone": "a"}), node("b", labels={"zone": "b"}))
    even = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ]
    }
    for i in range(2):
        cluster.add(pod(f"p{i}", gpus=1, labels={"app": "x"}, spec=even, created=i))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound()) == 1
        cluster.delete_node("b")
        await cluster.settle()

    assert len(cluster.bound()) == 2


async def test_equal_gangs_are_all_tried_again_when_the_pods_of_their_affinity_are_placed() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1"))
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    near = {"affinity": {"podAffinity": required}}
    cluster.add(*(pod(f"p{i}", spec=near, created=i) for i in range(2)))
    async with cluster.running():
        await cluster.settle()
        assert cluster.bound() == {}
        cluster.add(pod("x", labels={"app": "x"}, scheduler="other", spec={"nodeName": "n1"}))
        await cluster.settle()

    assert set(cluster.bound("p")) == {"p0", "p1"}


async def test_nodes_of_a_gang_that_waited_too_long_are_closed_to_gangs_behind_it() -> None:
    cluster = FakeCluster(Settings(starvation_after=100))
    cluster.add(node("n1", gpus=4))
    cluster.add(volcano_group("early", 2, created=0), *gang("early", 2, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("big", 4, created=1), *gang("big", 4, gpus=1))
        await cluster.settle(50)
        cluster.add(pod("first", gpus=1, created=2))
        await cluster.settle()
        assert cluster.bound("first") == {"first": "n1"}  # not yet too long
        await cluster.settle(100)
        cluster.add(pod("second", gpus=1, created=3))
        await cluster.settle()
        assert cluster.bound("second") == {}
        assert cluster.state.kept
        assert "default/big" in cluster.reason("second")
        for name in ("early-0", "early-1", "first"):
            cluster.finish(name, "Succeeded")
        await cluster.settle()
        assert len(cluster.bound("big")) == 4
        cluster.add(node("n2", gpus=1))
        await cluster.settle()

    assert cluster.bound("second") == {"second": "n2"}


async def starving() -> FakeCluster:
    """A gang of eight that waited too long for all eight GPUs, and a rival it keeps away."""
    cluster = FakeCluster(Settings(starvation_after=10))
    cluster.add(node("n1", gpus=4), node("n2", gpus=4))
    cluster.add(pod("early", gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("big", 8, created=1), *gang("big", 8, gpus=1))
        await cluster.settle(60)
        cluster.add(pod("rival", gpus=1, created=5))
        await cluster.settle()
        assert cluster.bound("rival") == {}
        assert cluster.state.kept
        assert "default/big" in cluster.reason("rival")
    return cluster


@pytest.mark.parametrize("loss", ["member", "group", "node", "claim"])
async def test_no_nodes_are_reserved_for_a_gang_that_can_no_longer_start(loss: str) -> None:
    cluster = await starving()
    async with cluster.running():
        if loss == "member":
            cluster.delete_pod("big-3")
        elif loss == "group":
            cluster.delete_group("big")
        elif loss == "node":
            cluster.delete_node({"n1", "n2"}.difference(cluster.bound().values()).pop())
        else:
            cluster.delete_pod("big-3")
            claims = {"resourceClaims": [{"name": "x", "resourceClaimName": "x"}]}
            cluster.add(pod("big-3", gpus=1, group="big", spec=claims))
        await cluster.settle()

    assert set(cluster.bound()) == {"early", "rival"}


@pytest.mark.parametrize("end", ["starts", "goes"])
async def test_surplus_behind_a_gang_that_waited_too_long_says_so_and_is_bound_after_it(
    end: str,
) -> None:
    cluster = await starving()
    async with cluster.running():
        cluster.add(node("n3"), volcano_group("small", 1, created=6), *gang("small", 1))
        await cluster.settle()
        assert len(cluster.bound("small")) == 1
        cluster.add(pod("small-surplus", gpus=1, group="small"))
        await cluster.settle()
        assert cluster.bound("small-surplus") == {}
        assert cluster.state.kept
        assert "default/big" in cluster.reason("small")
        if end == "starts":
            cluster.delete_pod("rival")
            cluster.finish("early", "Succeeded")
            await cluster.settle()
            assert len(cluster.bound("big")) == 8
            cluster.add(node("n4", gpus=1))
        else:
            for i in range(8):
                cluster.delete_pod(f"big-{i}")
            cluster.delete_group("big")
        await cluster.settle()

    assert cluster.bound("small-surplus") != {}
    assert cluster.reason("small") == ""


async def test_nodes_are_reserved_again_for_a_gang_that_can_start_again() -> None:
    cluster = await starving()
    async with cluster.running():
        cluster.delete_pod("big-3")
        await cluster.settle()
        cluster.add(pod("big-3", gpus=1, group="big"))
        await cluster.settle()
        cluster.add(pod("other", gpus=1, created=9))
        await cluster.settle()
        assert cluster.bound("other") == {}
        cluster.finish("early", "Succeeded")
        cluster.finish("rival", "Succeeded")
        await cluster.settle()

    assert len(cluster.bound("big")) == 8


async def test_a_parked_gang_is_tried_again_when_the_settings_are_reloaded() -> None:
    cluster = FakeCluster(Settings(preempt=False))
    cluster.add(node("n1", gpus=1), pod("low", gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle(5)
        assert cluster.deletes == []
        cluster.state.settings_changed(Settings())
        cluster.loop.wake()
        await cluster.settle(5)

    assert set(cluster.bound()) == {"high"}


async def test_a_parked_gang_is_tried_again_when_its_priority_class_is_recreated() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1), pod("low", gpus=1))
    async with cluster.running():
        await cluster.settle()
        lowered = {"metadata": {"name": "class"}, "value": 0}
        cluster.add(msgspec.convert(lowered, PriorityClass))
        group = volcano_group("g", 1, priority_class="class")
        cluster.add(group, *gang("g", 1, gpus=1, priority=100))
        await cluster.settle(5)
        assert cluster.deletes == []
        raised = {"metadata": {"name": "class"}, "value": 100}
        cluster.add(msgspec.convert(raised, PriorityClass))
        await cluster.settle(5)

    assert set(cluster.bound()) == {"g-0"}


async def test_room_for_a_late_member_is_placed_with_its_gang_and_held() -> None:
    cluster = FakeCluster()
    late = {"muster.dev/late": '{"launcher": {"cpu": "2", "memory": "1Gi"}}'}
    cluster.add(node("n1", gpus=4, cpu="6"))
    cluster.add(volcano_group("mpi", 4, annotations=late))
    cluster.add(*(pod(f"mpi-{i}", gpus=1, group="mpi", role="worker") for i in range(4)))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound("mpi")) == 4
        cluster.add(pod("greedy", cpu="1"))
        await cluster.settle()
        assert cluster.bound("greedy") == {}
        cluster.add(pod("mpi-launcher", cpu="2", group="mpi", role="launcher"))
        await cluster.settle()

    assert cluster.bound("mpi-launcher") == {"mpi-launcher": "n1"}
    assert cluster.bound("greedy") == {}


async def test_a_gang_without_room_for_its_late_member_does_not_start() -> None:
    cluster = FakeCluster()
    late = {"muster.dev/late": '{"launcher": {"cpu": "4"}}'}
    cluster.add(node("n1", gpus=4, cpu="6"))
    cluster.add(volcano_group("mpi", 4, annotations=late), *gang("mpi", 4, gpus=1, role="worker"))
    await cluster.run()

    assert cluster.bound("mpi") == {}


async def test_a_group_waits_until_its_min_resources_are_free() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4))
    cluster.add(volcano_group("g", 2, min_resources={"nvidia.com/gpu": "6"}), *gang("g", 2, gpus=1))
    async with cluster.running():
        await cluster.settle()
        assert cluster.reason("g") == f"the group's minResources are not free: {short(2)}"
        cluster.add(node("n2", gpus=2))
        await cluster.settle()

    assert len(cluster.bound("g")) == 2


async def test_the_line_lists_waiting_gangs_in_order_with_reasons() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1))
    cluster.add(volcano_group("b", 2, created=0), *gang("b", 2, gpus=1))
    cluster.add(volcano_group("a", 3, created=1), *gang("a", 3, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.state.wall_offset = START.timestamp() - cluster.state.now
        rows = waiting_line_publisher.waiting_gangs(cluster.state, cluster.state.now)

    published = waiting_line_format.read(waiting_line_publisher.encode_line(rows))
    assert [(row.gang, row.place, row.pending) for row in published] == [
        ("default/b", 1, 2),
        ("default/a", 2, 3),
    ]
    assert rows[0].since == timestamp(START)
    assert cluster.reason("a")
    assert str(published[1]) == f"{cluster.reason('a')}; 2nd in line"


def waits(cluster: FakeCluster, gang: str) -> str:
    """Since when a gang waits, as the published line says."""
    rows = waiting_line_publisher.waiting_gangs(cluster.state, cluster.state.now)
    return next(row.since for row in rows if row.gang == f"default/{gang}")


async def waiting_for_29_minutes(**each: Any) -> FakeCluster:
    """A gang that starves after 30 minutes, and a restart of the scheduler after 29."""
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), pod("old", gpus=2, spec={"nodeName": "n1"}))
    now = asyncio.get_running_loop().time()
    cluster.state.wall_offset = START.timestamp() - now
    cluster.add(volcano_group("big", 2), *gang("big", 2, gpus=1, **each))
    await cluster.run(29 * 60)
    assert cluster.state.kept is None
    cluster.restart()
    return cluster


async def test_a_gang_starves_after_its_whole_wait_even_if_the_scheduler_restarts() -> None:
    cluster = await waiting_for_29_minutes()
    async with cluster.running():
        await cluster.settle(50)
        assert cluster.state.kept is None
        # Not later: what one process writes to the pods, the next one reads.
        assert waits(cluster, "big") == timestamp(START)
        await cluster.settle(20)

        assert cluster.state.kept is not None


@pytest.mark.parametrize(
    ("reason", "since"), [("Unschedulable", 20 * 60), ("SchedulingGated", 29 * 60)]
)
async def test_after_a_restart_the_condition_of_a_pod_tells_since_when_it_waits(
    reason: str, since: float
) -> None:
    at = (START + timedelta(minutes=20)).isoformat()
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    cluster = await waiting_for_29_minutes()
    for i in range(2):
        old = cluster.pods[Key("default", f"big-{i}")]
        conditions = msgspec.convert([condition | {"lastTransitionTime": at}], tuple[Condition])
        cluster.add(replace(old, status=replace(old.status, conditions=conditions)))
    await cluster.run(1)

    waited = datetime.fromisoformat(waits(cluster, "big")) - START
    assert 0 <= waited.total_seconds() - since <= 2


async def test_a_process_that_leads_again_reads_anew_since_when_gangs_wait() -> None:
    cluster = await waiting_for_29_minutes()
    async with cluster.running():
        await cluster.settle(5)
        for i in range(2):  # another process has bound them, and they were evicted
            cluster.delete_pod(f"big-{i}")
            cluster.add(pod(f"big-{i}", gpus=1, group="big", created=29 * 60))
        cluster.state.begin_writing()
        await cluster.settle(5)

        assert waits(cluster, "big") == timestamp(START + timedelta(minutes=29))


async def test_pods_of_one_job_that_wait_one_by_one_are_one_entry_of_the_line() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1))
    for i in range(3):
        one = pod(f"one-{i}", gpus=2, created=2 * i)
        owner = replace(one.metadata.owner_references[0], uid="one")
        cluster.add(replace(one, metadata=replace(one.metadata, owner_references=(owner,))))
    cluster.add(pod("alone-0", gpus=2, created=1, controller=""))
    cluster.add(pod("alone-1", gpus=2, created=2, controller=""))
    cluster.add(volcano_group("big", 2, created=3), *gang("big", 2, gpus=2))
    async with cluster.running():
        await cluster.settle()
        rows = waiting_line_publisher.waiting_gangs(cluster.state, cluster.state.now)

    assert [(row.gang, row.place, row.pending) for row in rows] == [
        ("default/one-0", 1, 3),
        ("default/alone-0", 2, 1),
        ("default/alone-1", 3, 1),
        ("default/big", 4, 2),
    ]


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")],
)
def test_places_are_written_as_ordinals(number: int, words: str) -> None:
    assert waiting_line_format.ordinal(number) == words


def test_an_invalid_line_is_empty() -> None:
    assert waiting_line_format.read({"line": "not json"}) == []
    assert waiting_line_format.read({}) == []
