"""Making room for a higher priority: surplus first, then whole gangs, never half of one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubekit.objects.core import Pod, PriorityClass
from kubekit.objects.meta import Key
from muster.scheduler.settings import Settings
from tests.muster.scheduler.builders import budget, gang, native_group, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster
from tests.muster.scheduler.random_history import RandomHistory
from tests.muster.words import short

pytestmark = pytest.mark.looptime
replace = msgspec.structs.replace


def evicted(cluster: FakeCluster) -> set[str]:
    return {p.metadata.name for d in cluster.deletes for p in d.pods}


async def test_a_gang_is_evicted_whole_and_the_higher_priority_gets_the_room() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), node("n2", gpus=2))
    cluster.add(volcano_group("low", 4), *gang("low", 4, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("high", 2, created=9), *gang("high", 2, gpus=1, priority=5))
        await cluster.settle(5)

    assert evicted(cluster) == {"low-0", "low-1", "low-2", "low-3"}
    assert len(cluster.bound("high")) == 2


async def test_surplus_members_are_evicted_before_whole_gangs_and_no_more_than_needed() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8))
    cluster.add(volcano_group("elastic", 2), *gang("elastic", 5, gpus=1))
    cluster.add(volcano_group("rigid", 3), *gang("rigid", 3, gpus=1))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound()) == 8
        cluster.add(volcano_group("high", 2, created=9), *gang("high", 2, gpus=1, priority=5))
        await cluster.settle(5)

    assert evicted(cluster) == {"elastic-3", "elastic-4"}
    assert len(cluster.bound("high")) == 2


@pytest.mark.parametrize(
    ("mode", "victims"),
    [("Pod", {"elastic-4"}), ("PodGroup", {f"elastic-{i}" for i in range(5)}), ({"all": {}}, None)],
)
async def test_a_group_that_is_disrupted_as_a_whole_loses_no_single_member(
    mode: Any, victims: set[str] | None
) -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=5), native_group("elastic", 2, {"disruptionMode": mode}))
    cluster.add(*gang("elastic", 5, gpus=1, dialect="native"))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound()) == 5
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle(5)

    assert evicted(cluster) == (victims or {f"elastic-{i}" for i in range(5)})


@pytest.mark.parametrize("where", ["group", "annotation", "label"])
async def test_what_volcano_calls_not_preemptable_is_never_evicted(where: str) -> None:
    cluster = FakeCluster()
    mark = {"volcano.sh/preemptable": "false"}
    cluster.add(node("n1", gpus=2))
    cluster.add(volcano_group("low", 2, annotations=mark if where == "group" else {}))
    marks = {"annotation": {"annotations": mark}, "label": {"labels": mark}}.get(where, {})
    cluster.add(*gang("low", 2, gpus=1, **marks))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound("low")) == 2
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle(5)

    assert cluster.deletes == []


async def test_a_native_group_with_the_policy_never_evicts_nobody() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), pod("low", gpus=2))
    async with cluster.running():
        await cluster.settle()
        cluster.add(native_group("high", 2, {"preemptionPolicy": "Never", "priority": 5}))
        cluster.add(*gang("high", 2, gpus=1, dialect="native"))
        await cluster.settle(5)

    assert cluster.deletes == []
    assert len(cluster.bound("low")) == 1


async def test_nothing_is_evicted_unless_the_gang_then_fits() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4))
    cluster.add(volcano_group("low", 4), *gang("low", 4, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("huge", 5, created=9), *gang("huge", 5, gpus=1, priority=5))
        await cluster.settle(60)

    assert cluster.deletes == []
    assert len(cluster.bound("low")) == 4


async def test_equal_priority_is_never_evicted() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("a", 2), *gang("a", 2, gpus=1, priority=5))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("b", 2, created=9), *gang("b", 2, gpus=1, priority=5))
        await cluster.settle(60)

    assert cluster.deletes == []


async def test_the_room_is_held_for_the_preemptor_while_its_victims_terminate() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("low", 2), *gang("low", 2, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.evict = lambda name, namespace: cluster.terminate(name)
        cluster.add(volcano_group("high", 2, created=9), *gang("high", 2, gpus=1, priority=5))
        await cluster.settle()
        cluster.add(pod("sneak", gpus=1, priority=5, created=20))
        cluster.delete_pod("low-0")
        await cluster.settle()
        assert cluster.bound("sneak") == {}
        cluster.delete_pod("low-1")
        await cluster.settle()

    assert len(cluster.bound("high")) == 2
    assert cluster.bound("sneak") == {}
    assert len(cluster.deletes) == 1


async def two_gangs_want_the_room_of_one(cluster: FakeCluster, *, between: float) -> None:
    cluster.add(node("n1", gpus=4), volcano_group("low", 4), *gang("low", 4, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.evict = lambda name, namespace: cluster.terminate(name)
        cluster.add(volcano_group("a", 2, created=9), *gang("a", 2, gpus=1, priority=5))
        await cluster.settle(between)
        cluster.add(volcano_group("b", 2, created=10), *gang("b", 2, gpus=1, priority=5))
        await cluster.settle()
        assert cluster.bound("a") == cluster.bound("b") == {}
        for name in sorted(cluster.bound("low")):
            cluster.delete_pod(name)
        await cluster.settle()


@pytest.mark.parametrize("between", [0, 1])
async def test_pods_that_make_room_for_two_gangs_are_deleted_and_counted_once(
    between: float,
) -> None:
    cluster = FakeCluster()
    await two_gangs_want_the_room_of_one(cluster, between=between)

    assert sorted(p.metadata.name for d in cluster.deletes for p in d.pods) == [
        "low-0",
        "low-1",
        "low-2",
        "low-3",
    ]
    assert len(cluster.bound("a")) == len(cluster.bound("b")) == 2


async def test_single_pods_of_lower_priority_are_evicted_unless_a_budget_protects_them() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), budget("keep", "50%", {"app": "web"}))
    cluster.add(pod("web", gpus=1, labels={"app": "web"}, controller="ReplicaSet"))
    cluster.add(pod("batch", gpus=1, controller="Job"))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound()) == 2
        cluster.add(pod("first", gpus=1, priority=5), pod("second", gpus=1, priority=5, created=1))
        await cluster.settle(5)

    assert evicted(cluster) == {"batch"}
    assert set(cluster.bound()) == {"web", "first"}


async def test_a_budget_with_the_name_of_a_pod_group_protects_the_group() -> None:
    cluster = FakeCluster()
    cluster.add(
        node("n1", gpus=2), volcano_group("train", 2), budget("train", "50%", {"app": "train"})
    )
    cluster.add(*gang("train", 2, gpus=1, labels={"app": "train"}))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound()) == 2
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle(5)

    assert cluster.deletes == []


async def test_a_pod_that_may_not_preempt_waits() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1), pod("low", gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("polite", gpus=1, priority=5, spec={"preemptionPolicy": "Never"}))
        await cluster.settle(5)

    assert cluster.deletes == []


async def test_preemption_can_be_switched_off() -> None:
    cluster = FakeCluster(Settings(preempt=False))
    cluster.add(node("n1", gpus=1), pod("low", gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle(5)

    assert cluster.deletes == []


def web(count: int, **each: Any) -> list[Pod]:
    """Pods of a service, each on a node of its own."""
    labels = {"app": "web"}
    return [
        pod(f"web-{i}", gpus=1, labels=labels, controller="ReplicaSet", created=i, **each)
        for i in range(count)
    ]


async def test_no_more_pods_are_evicted_than_their_budget_allows() -> None:
    cluster = FakeCluster()
    cluster.add(*(node(f"n{i}", gpus=1) for i in range(3)))
    cluster.add(budget("keep", "50%", {"app": "web"}, allowed=1), *web(3))
    async with cluster.running():
        await cluster.settle()
        cluster.evict = lambda name, namespace: cluster.terminate(name)
        cluster.add(pod("first", gpus=1, priority=5), pod("second", gpus=1, priority=5, created=1))
        await cluster.settle(5)

    assert len(evicted(cluster)) == 1


async def test_a_gang_that_needs_more_than_a_budget_allows_evicts_nothing() -> None:
    cluster = FakeCluster()
    cluster.add(*(node(f"n{i}", gpus=1) for i in range(3)))
    cluster.add(budget("keep", "50%", {"app": "web"}, allowed=1), *web(3))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("high", 2), *gang("high", 2, gpus=1, priority=5))
        await cluster.settle(5)

    assert cluster.deletes == []


async def test_the_evictions_that_a_budget_allows_are_spent_where_they_help() -> None:
    cluster = FakeCluster()
    cluster.add(*(node(f"n{i}", gpus=1) for i in range(3)))
    cluster.add(budget("keep", "50%", {"app": "web"}, allowed=1), *web(3))
    async with cluster.running():
        await cluster.settle()
        home = cluster.bound()["web-0"]
        chosen = {"nodeSelector": {"kubernetes.io/hostname": home}}
        cluster.add(pod("high", gpus=1, priority=5, spec=chosen))
        await cluster.settle(5)

    assert evicted(cluster) == {"web-0"}


async def test_pods_without_a_budget_are_evicted_before_pods_under_one() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), budget("keep", "50%", {"app": "web"}, allowed=1), *web(1))
    cluster.add(pod("batch", gpus=1, controller="Job"))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle(5)

    assert evicted(cluster) == {"batch"}


@pytest.mark.parametrize("change", ["allows more", "is gone"])
async def test_a_gang_that_a_budget_kept_waiting_is_tried_again_when_it(change: str) -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1), budget("keep", "50%", {"app": "web"}), *web(1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle(5)
        assert cluster.deletes == []
        if change == "is gone":
            cluster.state.budget_changed(Key("default", "keep"), None)
            cluster.loop.wake()
        else:
            cluster.add(budget("keep", "50%", {"app": "web"}, allowed=1))
        await cluster.settle(5)

    assert evicted(cluster) == {"web-0"}
    assert "high" in cluster.bound()


async def test_the_room_of_a_surplus_member_is_not_counted_twice() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=3), volcano_group("low", 2), *gang("low", 3, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("high", 4, created=9), *gang("high", 4, gpus=1, priority=5))
        await cluster.settle(5)

    assert cluster.deletes == []


async def test_a_gang_evicts_pods_whose_binds_were_in_flight_when_it_came() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1), pod("low", gpus=1))
    async with cluster.running():
        await cluster.settle(0.0005)
        assert cluster.bound() == {}
        assert len(cluster.state.assumed) == 1
        cluster.add(pod("high", gpus=1, priority=9))
        await cluster.settle()

    assert cluster.bound() == {"high": "n1"}


def test_a_gang_evicts_nothing_while_its_own_binds_are_in_flight() -> None:
    world = RandomHistory(preempt=True)
    world.add_node(4)
    world.add_node(2)
    world.arrive(1, 1, 2, 0)
    world.decide()
    world.land(0, "bound")
    assert [member.spec.node_name for member in world.bound("g003")] == ["n002"]
    world.arrive(2, 2, 2, 1)
    world.decide()
    world.cordon(0)
    world.land(0, "refused")
    world.decide()
    assert len(world.bound("g003")) == 1

    world.land(0, "bound")
    world.decide()
    world.land(0, "bound")

    assert world.bound("g003") == []
    assert sorted(member.spec.node_name for member in world.bound("g004")) == ["n001", "n002"]


async def test_a_class_that_only_the_group_names_evicts_nothing() -> None:
    cluster = FakeCluster()
    critical = {"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000}
    cluster.add(msgspec.convert(critical, PriorityClass))
    cluster.add(node("n1", gpus=4), volcano_group("theirs", 4), *gang("theirs", 4, gpus=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("mine", 4, priority_class="system-node-critical", created=9))
        cluster.add(*gang("mine", 4, gpus=1))
        await cluster.settle(60)

    assert cluster.deletes == []
    assert len(cluster.bound("theirs")) == 4


# -- whom a waiting gang may evict changes ---------------------------------------------------------


async def test_a_gang_below_all_of_its_running_members_is_evicted() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), native_group("low", 2, {"priority": 1}))
    cluster.add(*gang("low", 2, gpus=1, priority=5, dialect="native"))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle(5)

    assert cluster.bound() == {"high": "n1"}


async def test_after_a_restart_a_gang_is_evicted_that_is_seen_later_than_the_one_that_waits() -> (
    None
):
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("g", 2), *gang("g", 2, gpus=1, priority=5))
    await cluster.run()
    assert len(cluster.bound("g")) == 2
    cluster.add(pod("low", group="g", priority=1, scheduler="someone-else"))
    cluster.add(pod("high", gpus=1, priority=5))
    cluster.restart()
    await cluster.run(5)

    assert cluster.bound() == {"high": "n1"}


@pytest.mark.parametrize("in_flight", [True, False])
async def test_a_gang_evicts_another_whose_priority_falls_by_a_new_member(in_flight: bool) -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("g", 2), *gang("g", 2, gpus=1, priority=5))
    async with cluster.running():
        await cluster.settle(0.0005 if in_flight else 1)
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle(0.0001 if in_flight else 1)
        assert len(cluster.state.assumed) == (2 if in_flight else 0)
        assert short(1) in cluster.reason("high")
        cluster.add(pod("low", group="g", scheduler="someone-else"))
        await cluster.settle(5)

    assert evicted(cluster) == {"g-0", "g-1"}
    assert cluster.bound() == {"high": "n1"}


async def test_a_gang_evicts_another_whose_group_is_given_a_lower_priority() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), native_group("low", 2, {"priority": 5}))
    cluster.add(*gang("low", 2, gpus=1, priority=5, dialect="native"))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle()
        assert evicted(cluster) == set()
        cluster.add(native_group("low", 2, {"priority": 1}))
        await cluster.settle(5)

    assert cluster.bound() == {"high": "n1"}


def test_a_gang_evicts_another_once_its_last_bind_in_flight_has_failed() -> None:
    world = RandomHistory(preempt=True)
    world.add_node(2)
    world.arrive(2, 2, 1, 0)
    world.decide()
    world.arrive(1, 1, 2, 1)
    world.decide()
    world.land(0, "bound")
    for _ in range(2):  # after the second failure the gang pauses
        world.land(0, "refused")
        world.decide()
    world.land(0, "bound")

    assert world.bound("g002") == []
    assert len(world.bound("g003")) == 1


@pytest.mark.parametrize("where", ["group", "pod"])
async def test_a_gang_evicts_pods_that_are_no_longer_protected(where: str) -> None:
    marks = {"volcano.sh/preemptable": "false"}
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1))
    by_group = where == "group"
    low = pod("low", gpus=1, group="g" if by_group else "", labels={} if by_group else marks)
    cluster.add(volcano_group("g", 1, annotations=marks), low)
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("high", gpus=1, priority=5))
        await cluster.settle()
        assert evicted(cluster) == set()
        now = cluster.pods[low.metadata.key]
        unmarked = replace(now, metadata=replace(now.metadata, labels={}))
        cluster.add(volcano_group("g", 1) if by_group else unmarked)
        await cluster.settle(5)

    assert cluster.bound() == {"high": "n1"}


async def test_freed_room_that_is_too_small_wakes_a_gang_that_can_evict_the_rest() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), pod("low", gpus=1), pod("highest", gpus=1, priority=9))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("high", gpus=2, priority=5))
        await cluster.settle()
        assert evicted(cluster) == set()
        cluster.finish("highest", "Succeeded")
        await cluster.settle(5)

    assert cluster.bound() == {"high": "n1"}


async def test_freed_room_does_not_wake_a_gang_that_could_evict_nothing_there() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), pod("same", gpus=1, priority=5))
    cluster.add(pod("highest", gpus=1, priority=9), pod("low", priority=1))
    async with cluster.running():
        await cluster.settle()
        high = pod("high", gpus=2, priority=5)
        cluster.add(high)
        await cluster.settle()
        rest = cluster.state.record(cluster.state.index.of_pod[high.metadata.uid]).rest
        cluster.finish("highest", "Succeeded")
        await cluster.settle()

    assert cluster.state.record(cluster.state.index.of_pod[high.metadata.uid]).rest is rest
