"""Topologies that are odd, hostile or in motion: no gang is split, and the scheduler goes on."""

from __future__ import annotations

from typing import Any

import pytest

import muster
from kubekit.objects.meta import Key
from muster.contract.gang import HyperNodeTiers, Topology
from muster.contract.pod_groups import RegexMatch
from tests.muster.scheduler.builders import budget, gang, hyper_node, node, pod, volcano_group
from tests.muster.scheduler.decisions.test_topology import (
    ONE_RACK,
    RACK,
    ZONE,
    rack,
    racked,
    racks_of,
)
from tests.muster.scheduler.fake_cluster import FakeCluster, replace
from tests.muster.words import no_domain, tells
from tests.work import calls_in

pytestmark = pytest.mark.looptime


REGEX_ALL = RegexMatch(pattern=".*")


def networked(name: str, size: int, **topology: Any) -> list[Any]:
    group = volcano_group(name, size, spec={"networkTopology": topology})
    return [group, *gang(name, size, gpus=1, role="worker")]


async def test_an_empty_value_of_the_label_is_a_rack_and_a_missing_label_is_not() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("", 2), node("bare", gpus=8), *racked("g", 2), *racked("h", 3, created=1))
    await cluster.run()

    assert set(cluster.bound("g").values()) == {"-0"}
    assert tells(cluster.reason("h"), "rack", '""', "0 of 3 workers")


async def test_hyper_nodes_that_all_contain_each_other_cost_little_work() -> None:
    cluster = FakeCluster()
    cluster.add(*(node(f"n{i}", gpus=1) for i in range(14)))
    for i in range(14):
        item = hyper_node(f"h{i}", 1, {"exactMatch": {"name": f"n{i}"}}, {"inner": ".*"})
        members = [
            replace(m, selector=replace(m.selector, exact_match=None, regex_match=REGEX_ALL))
            if m.type == "HyperNode"
            else m
            for m in item.spec.members
        ]
        cluster.add(replace(item, spec=replace(item.spec, members=tuple(members))))
    cluster.add(*networked("g", 14, highestTierAllowed=1))
    with calls_in(muster) as calls:
        await cluster.run()

    assert len(cluster.bound("g")) == 14
    assert calls.count < 1_000_000


async def test_a_chain_of_thousands_of_hyper_nodes_does_not_stop_the_scheduler() -> None:
    cluster = FakeCluster()
    cluster.add(node("n", gpus=1))
    length = 3000
    for i in range(length):
        member = {"inner": f"h{i + 1}"} if i < length - 1 else {"exactMatch": {"name": "n"}}
        cluster.state.hyper_node_changed(Key("", f"h{i}"), hyper_node(f"h{i}", i, member))
    cluster.add(*networked("g", 1, highestTierAllowed=0))
    await cluster.run()

    assert cluster.bound("g") == {"g-0": "n"}


@pytest.mark.parametrize("pattern", ["(a+)+$", "[", "(?P<x", "a{1000000}", "", "\\C*"])
async def test_a_pattern_is_never_a_way_to_stop_the_scheduler(pattern: str) -> None:
    cluster = FakeCluster()
    cluster.add(node("a" * 60 + "b", gpus=1))
    cluster.add(hyper_node("h", 1, {"regexMatch": {"pattern": pattern}}))
    cluster.add(*networked("g", 2, mode="hard"), pod("single", gpus=1, created=1))
    await cluster.run()

    assert cluster.bound("g") == {}
    assert len(cluster.bound("single")) == 1


async def test_two_gangs_race_for_the_last_rack_and_one_gets_it_whole() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2, 2), *rack("r2", 1), *racked("a", 3), *racked("b", 3, created=1))
    await cluster.run()

    assert len(cluster.bound("a")) == 3
    assert cluster.bound("b") == {}
    assert tells(cluster.reason("b"), "rack", "r1", "1 of 3 workers")


async def test_pods_added_to_a_whole_gang_join_it_one_by_one_and_never_elsewhere() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 3), *rack("r2", 8), *racked("g", 3))
    async with cluster.running():
        await cluster.settle()
        assert racks_of(cluster, "g-") == {"r1"}
        cluster.add(*gang("g", 5, gpus=1, role="worker")[3:])
        await cluster.settle()
        assert len(cluster.bound("g")) == 3
        cluster.add(replace(cluster.nodes["r2-0"], metadata=relabelled(cluster, "r2-0", "r1")))
        await cluster.settle()

    assert len(cluster.bound("g")) == 5
    assert racks_of(cluster, "g-") == {"r1"}


def relabelled(cluster: FakeCluster, name: str, value: str) -> Any:
    metadata = cluster.nodes[name].metadata
    return replace(metadata, labels={**metadata.labels, RACK: value})


async def test_a_node_that_moves_to_another_rack_moves_nobody_and_adds_nobody() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 1, 1), *rack("r2", 8), *racked("g", 2))
    async with cluster.running():
        await cluster.settle()
        assert set(cluster.bound("g").values()) <= {"r1-0", "r1-1", "r2-0"}
        where = next(iter(cluster.bound("g").values()))
        cluster.add(replace(cluster.nodes[where], metadata=relabelled(cluster, where, "r9")))
        cluster.add(*gang("g", 3, gpus=1, role="worker")[2:])
        await cluster.settle(60)

    assert cluster.deletes == []
    assert len(cluster.bound("g")) in (2, 3)


async def test_a_starving_gang_is_not_called_hopeless_once_hyper_nodes_appear() -> None:
    cluster = FakeCluster()
    cluster.add(node("n0", gpus=2), node("n1", gpus=2))
    cluster.add(pod("long", gpus=1, spec={"nodeName": "n0"}))
    cluster.add(*networked("g", 4, highestTierAllowed=1))
    async with cluster.running():
        await cluster.settle(2000)  # starves, and no HyperNode could hold it
        assert not cluster.state.kept
        members = ({"exactMatch": {"name": "n0"}}, {"exactMatch": {"name": "n1"}})
        cluster.add(hyper_node("h", 1, *members))
        await cluster.settle(60)
        assert cluster.bound("g") == {}
        assert cluster.state.kept  # it would fit once the other pod is gone


async def test_a_required_zone_and_rack_with_a_preferred_block_falls_back_within_the_rack() -> None:
    marks = {
        "muster.dev/topology": f"{ZONE},{RACK}",
        "muster.dev/topology-preferred": "example.com/block",
    }
    cluster = FakeCluster()
    for zone in ("z1", "z2"):
        for block in ("b1", "b2"):
            labels = {ZONE: zone, RACK: "r1", "example.com/block": block}
            cluster.add(node(f"{zone}-{block}", gpus=2, labels=labels))
    cluster.add(volcano_group("g", 3, annotations=marks), *gang("g", 3, gpus=1))
    cluster.add(volcano_group("h", 2, annotations=marks, created=1), *gang("h", 2, gpus=1))
    await cluster.run()

    assert len({name[:2] for name in cluster.bound("g").values()}) == 1
    assert len(set(cluster.bound("h").values())) == 1


async def test_preemption_in_one_rack_spares_a_gang_that_lies_in_another() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2), *rack("r2", 2))
    low = volcano_group("low", 2, annotations=ONE_RACK)
    cluster.add(low, *gang("low", 2, gpus=1), pod("solo", gpus=1, created=2))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound()) == 3
        cluster.add(*racked("high", 2, priority=5, created=9))
        await cluster.settle(5)

    assert len(racks_of(cluster, "high-")) == 1
    assert len(cluster.bound("high")) == 2
    assert [p.metadata.name for delete in cluster.deletes for p in delete.pods] == ["solo"]


async def test_replacements_wait_while_the_rack_is_full_and_the_whole_gang_may_move_later() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 1, 1), *rack("r2", 4), *racked("g", 2))
    cluster.add(pod("filler", gpus=3, spec={"nodeName": "r2-0"}))
    async with cluster.running():
        await cluster.settle()
        assert racks_of(cluster, "g-") == {"r1"}
        lost = next(iter(cluster.bound("g")))
        cluster.delete_node(cluster.bound("g")[lost])
        cluster.delete_pod(lost)
        cluster.add(pod("g-new", group="g", gpus=1, role="worker"))
        await cluster.settle(400)
        assert len(cluster.bound("g")) == 1
        assert tells(cluster.reason("g"), "r1", "0 of 1 worker")
        rest = next(iter(cluster.bound("g")))
        cluster.delete_pod(rest)
        cluster.delete_pod("filler")
        cluster.add(pod("g-newer", group="g", gpus=1, role="worker"))
        await cluster.settle(5)

    assert racks_of(cluster, "g-") == {"r2"}
    assert len(cluster.bound("g")) == 2


async def test_the_reason_names_no_rack_that_has_lost_its_nodes() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 1), *rack("r2", 1), *racked("g", 2))
    async with cluster.running():
        await cluster.settle()
        assert tells(cluster.reason("g"), "rack", "r1", "1 of 2 workers")
        cluster.add(replace(cluster.nodes["r1-0"], metadata=relabelled(cluster, "r1-0", "r3")))
        cluster.add(*(pod(f"other{i}", gpus=1, priority=1) for i in range(2)))
        await cluster.settle(60)
        assert tells(cluster.reason("g"), "rack", "r2", "0 of 2 workers")
        assert "r1" not in cluster.reason("g")
        for name in ("r1-0", "r2-0"):
            unlabelled = replace(cluster.nodes[name].metadata, labels={})
            cluster.add(replace(cluster.nodes[name], metadata=unlabelled))
        await cluster.settle(60)

    words = no_domain(Topology((RACK,)), missing_labels=((RACK, ""),))
    assert cluster.reason("g") == words


async def test_a_hyper_node_without_nodes_is_ignored() -> None:
    cluster = FakeCluster()
    cluster.add(node("n", gpus=1), hyper_node("h", 1, {"exactMatch": {"name": "gone"}}))
    cluster.add(*networked("g", 1, mode="hard"))
    await cluster.run()

    assert cluster.reason("g") == no_domain(Topology(tiers=HyperNodeTiers(True)))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (",".join(f"l{i}" for i in range(20_000)), "it names 20000 labels, 16 are allowed"),
        ("x" * 100_000, f"'{'x' * 60}…' is not a label key"),
        (f"{RACK},\x1b[31m", "'\\x1b[31m' is not a label key"),
        (" , ", "it names no label"),
    ],
)
async def test_an_annotation_that_names_no_label_keys_makes_its_gang_wait_and_nobody_else(
    labels: str, words: str
) -> None:
    cluster = FakeCluster()
    marks = {"muster.dev/topology": labels}
    cluster.add(*rack("r", 8), volcano_group("g", 2, annotations=marks), *gang("g", 2, gpus=1))
    cluster.add(pod("single", annotations=marks), pod("other", gpus=1))
    await cluster.run()

    assert list(cluster.bound()) == ["other"]
    assert cluster.reason("g") == f"muster.dev/topology is invalid: {words}"
    assert cluster.reason("single") == f"muster.dev/topology is invalid: {words}"


async def test_preferred_labels_that_are_none_are_no_reason_to_wait() -> None:
    cluster = FakeCluster()
    wishes = ",".join([*(f"l{i}" for i in range(20_000)), "no label!"])
    marks = {"muster.dev/topology-preferred": wishes, "muster.dev/topology": RACK}
    cluster.add(*rack("r", 8), volcano_group("g", 2, annotations=marks), *gang("g", 2, gpus=1))
    await cluster.run()

    assert len(cluster.bound("g")) == 2


async def test_room_is_kept_for_a_starving_gang_only_in_a_rack_that_could_hold_it() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2), *rack("small", 1), node("bare", gpus=1))
    cluster.add(pod("long", gpus=1, spec={"nodeName": "r1-0"}), *racked("g", 2))
    async with cluster.running():
        await cluster.settle(2000)
        assert cluster.state.kept
        cluster.add(*(pod(f"later{i}", gpus=1, created=5 + i) for i in range(3)))
        await cluster.settle()

    assert set(cluster.bound("later").values()) == {"bare", "small-0"}
    assert tells(cluster.reason("later2"), "1 node", "default/g")


async def test_ten_thousand_patterns_cost_little_work_and_one_change_costs_less() -> None:
    """Searching every name for every pattern would take half a minute, and each change again."""
    cluster = FakeCluster()
    cluster.add(*(node(f"node-{i:04d}", gpus=1) for i in range(1000)))

    def leaf(number: int, size: int) -> Any:
        patterns = (f"^node-{number * 10 + i % 10:04d}(-x{i})?$" for i in range(size))
        selectors = ({"regexMatch": {"pattern": pattern}} for pattern in patterns)
        return hyper_node(f"h{number:03d}", 1, *selectors)

    for number in range(100):
        cluster.state.hyper_node_changed(Key("", f"h{number:03d}"), leaf(number, 100))
    cluster.add(*networked("g", 10, highestTierAllowed=1))
    async with cluster.running():
        with calls_in(muster) as calls:
            await cluster.settle()
        assert set(cluster.bound("g").values()) == {f"node-{i:04d}" for i in range(10)}
        with calls_in(muster) as calls_of_change:
            cluster.add(leaf(1, 99), *networked("h", 10, highestTierAllowed=1))
            await cluster.settle()
    assert calls.count < 1_000_000
    assert calls_of_change.count < 100_000

    assert set(cluster.bound("h").values()) == {f"node-{i:04d}" for i in range(10, 20)}


@pytest.mark.parametrize(
    "patterns",
    [
        ("a", "["),  # the invalid one selects nothing, and the other one is not lost
        ("a", "b)(?:c"),  # invalid, and valid between the parentheses of a joined pattern
        ("(?P<x>a)", "(?P<x>z)"),  # one name for two groups: they cannot be joined
        (r"\Qa", r"z\E"),  # a quotation that would go on in the next pattern
        ("(?i)A", "Z"),  # the flag counts for its own pattern only
    ],
)
async def test_each_pattern_of_a_hyper_node_counts_by_itself(patterns: tuple[str, ...]) -> None:
    cluster = FakeCluster()
    cluster.add(*(node(name, gpus=1) for name in ("a", "b", "c", "bc", "y")))
    cluster.add(hyper_node("h", 1, *({"regexMatch": {"pattern": text}} for text in patterns)))
    cluster.add(*networked("g", 1, mode="hard"), *networked("wide", 2, mode="hard"))
    await cluster.run()

    assert set(cluster.bound().values()) == {"a"}


async def test_a_budget_for_two_racks_is_spent_on_the_rack_that_it_suffices_for() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 3), *rack("r2", 3))
    for name, count in (("r1", 3), ("r2", 2)):
        each: dict[str, Any] = {"spec": {"nodeSelector": {RACK: name}}, "labels": {"app": "low"}}
        cluster.add(*(pod(f"{name}-low{i}", gpus=1, **each) for i in range(count)))
    cluster.add(budget("low", "50%", {"app": "low"}, allowed=2))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound()) == 5
        cluster.add(*racked("high", 3, priority=5, created=9))
        await cluster.settle(5)

    assert racks_of(cluster, "high-") == {"r2"}
