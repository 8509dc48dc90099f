"""The seeds' stories on a cluster in memory: a gang starts whole or not at all, and says why."""

from __future__ import annotations

import pytest

from muster.scheduler.gangs import plan_annotation
from muster.scheduler.gangs.plan_annotation import PlanMark
from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster

pytestmark = pytest.mark.looptime


async def test_a_gang_that_does_not_fit_gets_no_binds_and_says_why() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), node("n2", gpus=4))
    cluster.add(volcano_group("big", 5), *gang("big", 5, gpus=2, role="worker"))
    await cluster.run()

    assert cluster.binds == []
    assert cluster.reason("big") == (
        "4 of 5 workers fit; short 2 nvidia.com/gpu; cannot start unless nodes are added: "
        "5 workers request 10 nvidia.com/gpu, the nodes have 8"
    )


async def test_a_reason_names_roles_and_not_the_classes_that_a_selector_tells_apart() -> None:
    """Another job's TensorBoard wants to be beside one replica of its own."""
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), node("n2", gpus=4))
    beside = {"labelSelector": {"matchLabels": {"index": "0"}}, "topologyKey": "host"}
    board = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [beside]}}
    cluster.add(pod("board", spec={"affinity": board}))
    members = [
        pod(f"big-{n}", group="big", gpus=2, role="worker", labels={"index": str(n)})
        for n in range(5)
    ]
    cluster.add(volcano_group("big", 5), *members)
    await cluster.run()

    assert cluster.reason("big") == (
        "4 of 5 workers fit; short 2 nvidia.com/gpu; cannot start unless nodes are added: "
        "5 workers request 10 nvidia.com/gpu, the nodes have 8"
    )


async def test_an_idle_node_that_is_too_small_is_not_called_full() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), node("n2", gpus=1))
    cluster.add(volcano_group("big", 1), *gang("big", 1, gpus=3, role="worker"))
    await cluster.run()

    assert cluster.reason("big") == (
        "no node is large enough: each worker requests 3 nvidia.com/gpu, the largest node has 2"
    )


async def test_a_node_that_a_selector_rules_out_is_not_called_too_small() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1"), pod("p", spec={"nodeSelector": {"zone": "a"}}))
    await cluster.run()

    assert cluster.reason("p") == (
        "no node is suitable; 1 node not matching the node selector zone=a"
    )


async def test_the_node_selector_in_a_reason_is_bounded() -> None:
    labels = {f"example.com/label-{i}": "v" * 40 for i in range(20)}
    cluster = FakeCluster()
    cluster.add(node("n1"), pod("p", spec={"nodeSelector": labels}))
    await cluster.run()

    assert "the node selector example.com/label-0=vvv" in cluster.reason("p")
    assert len(cluster.reason("p")) < 150


async def test_a_gang_that_no_empty_nodes_could_hold_side_by_side_is_told_to_add_nodes() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=5), node("n2", gpus=5))
    cluster.add(volcano_group("big", 3), *gang("big", 3, gpus=3, role="worker"))
    await cluster.run()

    assert cluster.reason("big") == (
        "2 of 3 workers fit; short 3 nvidia.com/gpu; cannot start unless nodes are added: "
        "2 would fit if all nodes were empty"
    )


async def test_a_gang_that_fits_once_others_have_ended_is_not_told_to_add_nodes() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), pod("other", gpus=2, spec={"nodeName": "n1"}))
    cluster.add(volcano_group("big", 2), *gang("big", 2, gpus=2, role="worker"))
    await cluster.run()

    assert cluster.reason("big") == (
        "1 of 2 workers fit; short 2 nvidia.com/gpu; 1 node full with it"
    )


async def test_a_small_node_beside_a_full_one_is_called_small() -> None:
    cluster = FakeCluster()
    cluster.add(
        node("n1", gpus=2), node("n2", gpus=1), pod("other", gpus=1, spec={"nodeName": "n1"})
    )
    cluster.add(volcano_group("big", 1), *gang("big", 1, gpus=2, role="worker"))
    await cluster.run()

    assert cluster.reason("big") == (
        "no node has room for the worker; short 2 nvidia.com/gpu; 1 node too small, 1 full"
    )


async def test_roles_that_fit_only_alone_name_the_resource_that_is_short() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", cpu="4", gpus=2))
    servers = [pod("g-ps", group="g", cpu="3", role="ps")]
    workers = gang("g", 2, cpu="1", gpus=1, role="worker")
    cluster.add(volcano_group("g", 3), *servers, *workers)
    await cluster.run()

    assert cluster.reason("g") == (
        "every role fits alone; 2 workers do not fit next to the rest, only 1 of them: "
        "short 1 cpu; cannot start unless nodes are added: "
        "all roles together request 5 cpu, the nodes have 4"
    )
    cluster.add(node("n2", cpu="4", gpus=2), pod("other", cpu="4", spec={"nodeName": "n2"}))
    await cluster.run()
    assert "unless nodes are added" not in cluster.reason("g")


async def test_a_gang_that_fits_is_bound_whole() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), node("n2", gpus=4))
    cluster.add(volcano_group("fits", 4), *gang("fits", 4, gpus=2, role="worker"))
    await cluster.run()

    assert len(cluster.bound("fits")) == 4
    assert cluster.used() == {"n1": 4, "n2": 4}


async def test_a_waiting_gang_binds_whole_when_room_appears() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2))
    cluster.add(volcano_group("late", 3), *gang("late", 3, gpus=1))
    async with cluster.running():
        await cluster.settle()
        before = dict(cluster.bound())
        cluster.add(node("n2", gpus=1))
        await cluster.settle()

    assert before == {}
    assert len(cluster.bound("late")) == 3
    assert cluster.reason("late") == ""


async def test_of_two_gangs_with_room_for_one_the_older_runs_and_the_other_waits_whole() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4))
    cluster.add(volcano_group("b", 4, created=1), volcano_group("a", 4, created=2))
    for i in range(4):  # their pods arrive interleaved
        cluster.add(pod(f"a-{i}", gpus=1, group="a"), pod(f"b-{i}", gpus=1, group="b"))
    async with cluster.running():
        await cluster.settle()

        assert len(cluster.bound("b")) == 4
        assert cluster.bound("a") == {}

        for i in range(4):
            cluster.finish(f"b-{i}", "Succeeded")
        await cluster.settle()

    assert len(cluster.bound("a")) == 4


async def test_pods_without_a_gang_are_bound_one_by_one() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), node("n2", gpus=4))
    cluster.add(*(pod(f"p-{i}", gpus=2) for i in range(5)))
    await cluster.run()

    assert len(cluster.bound("p")) == 4


async def test_a_gang_with_missing_members_waits_for_them() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("few", 3))
    cluster.add(*gang("few", 2, gpus=1))
    async with cluster.running():
        await cluster.settle()
        code = cluster.code("few")
        cluster.add(pod("few-2", gpus=1, group="few"))
        await cluster.settle()

    assert code == "NotEnoughMembers"
    assert len(cluster.bound("few")) == 3


async def test_a_pod_whose_group_does_not_exist_waits_with_a_reason() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1"), pod("lost-0", group="lost"))
    async with cluster.running():
        await cluster.settle()
        reason = cluster.reason("lost")
        cluster.add(volcano_group("lost", 1))
        await cluster.settle()

    assert "waits for lost to be created" in reason
    assert cluster.bound() == {"lost-0": "n1"}


async def test_each_role_must_have_its_own_minimum() -> None:
    cluster = FakeCluster()
    cluster.add(node("gpu", gpus=2, cpu="4"))
    cluster.add(volcano_group("roles", 2, roles={"ps": 1, "worker": 2}))
    cluster.add(*(pod(f"roles-worker-{i}", gpus=1, group="roles", role="worker") for i in (0, 1)))
    async with cluster.running():
        await cluster.settle()
        before = dict(cluster.bound())
        cluster.add(pod("roles-ps-0", cpu="1", group="roles", role="ps"))
        await cluster.settle()

    assert before == {}
    assert len(cluster.bound("roles")) == 3


async def test_members_beyond_the_minimum_are_bound_after_it_if_they_fit() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=3))
    cluster.add(volcano_group("elastic", 2), *gang("elastic", 5, gpus=1))
    await cluster.run()

    assert len(cluster.bound("elastic")) == 3
    assert cluster.code("elastic") == "NotEnoughRoom"


async def test_a_higher_priority_goes_first() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2))
    cluster.add(volcano_group("low", 2, created=0), volcano_group("high", 2, created=9))
    cluster.add(*gang("low", 2, gpus=1), *gang("high", 2, gpus=1, priority=10))
    await cluster.run()

    assert len(cluster.bound("high")) == 2
    assert cluster.bound("low") == {}


async def test_a_bind_carries_uid_and_plan_for_a_restarted_scheduler() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1"), volcano_group("g", 2), *gang("g", 2))
    await cluster.run()

    plans = {p.metadata.annotations["muster.dev/plan"] for p in cluster.pods.values()}
    assert plans == {cluster.plans[0].annotation}
    uids = [p.metadata.uid for p in cluster.pods.values()]
    assert plan_annotation.read(plans.pop()) == PlanMark(2, 2, frozenset(uids))
