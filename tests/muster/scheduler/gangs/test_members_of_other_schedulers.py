"""Members addressed to another scheduler: counted always, bound never, torn apart never."""

from __future__ import annotations

import msgspec
import pytest

from kubekit.objects.core import Pod
from muster.contract.gang import GangTerms
from muster.scheduler.decisions import reasons
from muster.scheduler.gangs.members import Members
from tests.muster.scheduler.builders import node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, cluster_with_gang

pytestmark = pytest.mark.looptime
replace = msgspec.structs.replace


def placed(name: str, where: str, **each: object) -> Pod:
    """A pod of another scheduler that it has given a node."""
    member = pod(name, scheduler="someone-else", **each)  # type: ignore[arg-type]
    running = replace(member.status, phase="Running")
    return replace(member, spec=replace(member.spec, node_name=where), status=running)


async def test_a_member_addressed_to_another_scheduler_is_never_bound() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 2))
    async with cluster.running():
        cluster.add(pod("m0", group="g", gpus=1))
        await cluster.settle()
        cluster.add(pod("f1", group="g", gpus=1, scheduler="someone-else"))
        await cluster.settle(10)

    assert cluster.bound() == {}
    members = Members((), (pod("m0"),), (), (), (), foreign=1)
    assert cluster.reason("g") == reasons.too_few(GangTerms(min=2), members, {"": 1}).text


async def test_surplus_addressed_to_another_scheduler_is_never_bound() -> None:
    cluster = cluster_with_gang(2, gpus=4)
    cluster.add(pod("f1", group="g", gpus=1, scheduler="someone-else"))
    await cluster.run(10)

    assert set(cluster.bound()) == {"g-0", "g-1"}
    assert cluster.reason("g") == ""


@pytest.mark.parametrize("foreign_first", [True, False])
async def test_a_member_bound_by_another_scheduler_counts_whoever_came_first(
    foreign_first: bool,
) -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 2))
    foreign, ours = placed("f1", "n1", group="g", gpus=1), pod("m0", group="g", gpus=1)
    async with cluster.running():
        for member in (foreign, ours) if foreign_first else (ours, foreign):
            cluster.add(member)
            await cluster.settle()

    assert set(cluster.bound()) == {"f1", "m0"}


async def test_a_gang_of_another_scheduler_is_not_reported_and_holds_no_room() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 4))
    members = [placed(f"g-{i}", "n1", group="g", gpus=1) for i in range(4)]
    async with cluster.running():
        cluster.add(*members)
        await cluster.settle()
        cluster.delete_pod("g-0")
        cluster.add(pod("g-9", group="g", gpus=1, scheduler="someone-else"))
        cluster.add(pod("ours", gpus=1))
        await cluster.settle()

    assert cluster.reports == []
    assert cluster.bound("ours") == {"ours": "n1"}
    assert cluster.bound("g-9") == {}


@pytest.mark.parametrize("declared", [True, False])
async def test_a_gang_of_another_scheduler_is_evicted_whole(declared: bool) -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), node("n2", gpus=2))
    if declared:
        cluster.add(volcano_group("g", 4))
    cluster.add(*(placed(f"g-{i}", f"n{1 + i // 2}", group="g", gpus=1) for i in range(4)))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("urgent", gpus=1, priority=1000, created=9))
        await cluster.settle(5)

    assert cluster.bound("g") == {}
    assert cluster.bound("urgent") != {}


async def test_a_single_pod_is_evicted_rather_than_a_gang_of_another_scheduler() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("g", 2))
    cluster.add(placed("g-0", "n1", group="g", gpus=1), placed("lone", "n1", gpus=1))
    cluster.add(node("n2", gpus=1), placed("g-1", "n2", group="g", gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("urgent", gpus=1, priority=1000, created=9))
        await cluster.settle(5)

    assert set(cluster.bound("g")) == {"g-0", "g-1"}
    assert cluster.bound("lone") == {}


async def test_a_hold_beside_members_of_another_scheduler_runs_out() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("g", 2))
    cluster.add(placed("f1", "n1", group="g", gpus=1), pod("m0", group="g", gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.delete_pod("m0")
        cluster.add(pod("rival", gpus=1, created=9))
        await cluster.settle(20)
        assert cluster.bound("rival") == {}
        await cluster.settle(20)

    assert cluster.bound("rival") == {"rival": "n1"}
