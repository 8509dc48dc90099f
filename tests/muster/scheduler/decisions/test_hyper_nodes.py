"""Volcano's networkTopology: a gang in one HyperNode, up to a tier, by number or by name."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kubekit.objects.meta import Key
from tests.muster.scheduler.builders import gang, hyper_node, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, replace
from tests.muster.words import short, tells

pytestmark = pytest.mark.looptime


def exact(name: str) -> dict[str, Any]:
    return {"exactMatch": {"name": name}}


def networked(name: str, size: int, created: float = 0.0, **topology: Any) -> list[Any]:
    """A gang of one GPU per member with this networkTopology."""
    group = volcano_group(name, size, created=created, spec={"networkTopology": topology})
    return [group, *gang(name, size, gpus=1, role="worker")]


def tree() -> FakeCluster:
    """Four nodes of 2 GPUs in two switches of tier 1 and one of tier 2; n4 is in none."""
    cluster = FakeCluster()
    cluster.add(*(node(f"n{i}", gpus=2, labels={"row": f"w{i // 2}"}) for i in range(5)))
    cluster.add(
        hyper_node("s0", 1, exact("n0"), exact("n1"), tier_name="rack"),
        hyper_node("s1", 1, {"labelMatch": {"matchLabels": {"row": "w1"}}}, tier_name="rack"),
        hyper_node("top", 2, {"inner": "s0"}, {"inner": "s1"}, tier_name="row"),
    )
    return cluster


@pytest.mark.parametrize(
    ("topology", "size", "nodes"),
    [
        ({"highestTierAllowed": 1}, 4, {"n0", "n1"}),
        ({"highestTierAllowed": 1}, 5, set()),
        ({"mode": "hard", "highestTierAllowed": 2}, 4, {"n0", "n1"}),
        ({"mode": "hard", "highestTierAllowed": 2}, 8, {"n0", "n1", "n2", "n3"}),
        ({"mode": "hard", "highestTierAllowed": 2}, 9, set()),
        ({"mode": "hard", "highestTierName": "rack"}, 5, set()),
        ({"mode": "hard", "highestTierName": "row"}, 5, {"n0", "n1", "n2"}),
        ({"mode": "hard"}, 7, {"n0", "n1", "n2", "n3"}),
        ({"mode": "hard"}, 9, set()),
        ({"mode": "soft", "highestTierAllowed": 1}, 4, {"n0", "n1"}),
        ({"mode": "soft", "highestTierAllowed": 1}, 7, {"n0", "n1", "n2", "n3"}),
        ({"mode": "soft"}, 10, {"n0", "n1", "n2", "n3", "n4"}),
    ],
)
async def test_the_lowest_tier_with_room_is_taken_up_to_the_highest_allowed(
    topology: dict[str, Any], size: int, nodes: set[str]
) -> None:
    cluster = tree()
    cluster.add(*networked("g", size, **topology))
    await cluster.run()

    assert set(cluster.bound("g").values()) == nodes
    assert len(cluster.bound("g")) in (0, size)


async def test_the_reason_names_the_best_hyper_node() -> None:
    cluster = tree()
    cluster.add(
        *networked("g", 5, highestTierAllowed=1), *networked("h", 5, highestTierName="rack")
    )
    cluster.add(*networked("i", 1, highestTierName="block"))
    cluster.add(*networked("j", 1, highestTierName="rak"))
    await cluster.run()

    for name, tier in (("g", "1"), ("h", "rack")):
        facts = (f"HyperNode of tier {tier} or lower", "s0", "4 of 5 workers", short(1))
        assert tells(cluster.reason(name), *facts)
    words = "no HyperNode has the tierName block"
    assert cluster.reason("i").endswith(f"HyperNode of tier block or lower: {words}")
    words = "no HyperNode has the tierName rak; the most similar is rack"
    assert cluster.reason("j").endswith(f"HyperNode of tier rak or lower: {words}")


async def test_hyper_nodes_appear_change_and_vanish_while_gangs_wait() -> None:
    cluster = FakeCluster()
    cluster.add(*(node(f"gpu-{i}", gpus=2) for i in range(3)))
    cluster.add(*networked("a", 4, highestTierAllowed=1), *networked("b", 2, 1.0, mode="hard"))
    async with cluster.running():
        await cluster.settle()
        assert cluster.bound() == {}
        assert "none of them has nodes" in cluster.reason("a")
        cluster.add(hyper_node("s0", 1, {"regexMatch": {"pattern": "^gpu-[01"}}))
        await cluster.settle()
        assert cluster.bound() == {}  # the pattern is invalid
        cluster.add(hyper_node("s0", 2, {"regexMatch": {"pattern": "^gpu-[01]$"}}))
        await cluster.settle()
        assert cluster.bound("a") == {}
        assert len(cluster.bound("b")) == 2  # any tier will do
        cluster.delete_pod("b-0")
        cluster.delete_pod("b-1")
        cluster.delete_group("b")
        cluster.add(hyper_node("s0", 1, {"regexMatch": {"pattern": "^gpu-[01]$"}}))
        await cluster.settle()
        assert set(cluster.bound("a").values()) == {"gpu-0", "gpu-1"}
        cluster.state.hyper_node_changed(Key("", "s0"), None)
        cluster.loop.wake()
        cluster.add(*networked("c", 1, 2.0, highestTierAllowed=1))
        await cluster.settle(60)

    assert len(cluster.bound("a")) == 4
    assert cluster.deletes == []
    assert cluster.bound("c") == {}


async def test_members_to_come_join_the_hyper_node_of_the_others() -> None:
    cluster = tree()
    cluster.add(*networked("g", 2, highestTierAllowed=1))
    async with cluster.running():
        await cluster.settle()
        cluster.add(*gang("g", 6, gpus=1, role="worker")[2:])
        await cluster.settle()

    assert set(cluster.bound("g").values()) == {"n0", "n1"}
    assert len(cluster.bound("g")) == 4
    assert tells(cluster.reason("g"), "s0", "0 of 2 workers")


async def test_hyper_nodes_may_overlap_and_contain_each_other() -> None:
    cluster = FakeCluster()
    cluster.add(*(node(f"n{i}", gpus=2) for i in range(4)))
    cluster.add(
        hyper_node("left", 1, exact("n0"), exact("n1"), {"inner": "right"}),
        hyper_node("right", 1, exact("n1"), exact("n2"), {"inner": "left"}),
        hyper_node("alone", 1, exact("n3"), exact("gone")),
    )
    cluster.add(*networked("g", 6, highestTierAllowed=1), *networked("h", 2, 1.0, mode="hard"))
    await cluster.run()

    assert set(cluster.bound("g").values()) == {"n0", "n1", "n2"}
    assert set(cluster.bound("h").values()) == {"n3"}


async def test_a_hyper_node_and_a_label_may_both_be_required() -> None:
    cluster = tree()
    marks = {"muster.dev/topology": "row"}
    group = volcano_group(
        "g", 4, annotations=marks, spec={"networkTopology": {"highestTierAllowed": 2}}
    )
    cluster.add(group, *gang("g", 4, gpus=1))
    cluster.add(volcano_group("h", 5, annotations=marks, created=1, spec=up_to_tier(2)))
    cluster.add(*gang("h", 5, gpus=1))
    await cluster.run()

    assert set(cluster.bound("g").values()) == {"n0", "n1"}
    assert cluster.bound("h") == {}
    assert "HyperNode of tier 2 or lower and one row" in cluster.reason("h")


def up_to_tier(tier: int) -> dict[str, Any]:
    return {"networkTopology": {"highestTierAllowed": tier}}


async def test_surplus_uses_every_hyper_node_that_the_members_are_in() -> None:
    cluster = FakeCluster()
    cluster.add(node("n0", gpus=1), node("n1", gpus=2), node("n2", gpus=2))
    cluster.add(hyper_node("left", 1, exact("n0"), exact("n1")))
    cluster.add(hyper_node("right", 1, exact("n1"), exact("n2")))
    cluster.add(pod("other", gpus=1, spec={"nodeName": "n0"}))
    _, first, *others = networked("g", 5, highestTierAllowed=1)
    cluster.add(volcano_group("g", 1, spec=up_to_tier(1)))
    cluster.add(replace(first, spec=replace(first.spec, node_name="n1")), *others)
    await cluster.run()

    assert Counter(cluster.bound("g").values()) == {"n1": 2, "n2": 2}


async def test_no_member_is_added_while_a_node_of_an_overlapping_hyper_node_is_gone() -> None:
    """n0 may come back with its pod: then n0, n1 and n2 would be in no HyperNode together."""
    cluster = FakeCluster()
    cluster.add(node("n0", gpus=1), node("n1", gpus=1))
    cluster.add(hyper_node("left", 1, exact("n0"), exact("n1")))
    cluster.add(hyper_node("right", 1, exact("n1"), exact("n2")))
    cluster.add(*networked("g", 2, highestTierAllowed=1))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound("g")) == 2
        cluster.delete_node("n0")
        cluster.add(node("n2", gpus=1), *gang("g", 3, gpus=1, role="worker")[2:])
        await cluster.settle()
        assert len(cluster.bound("g")) == 2
        assert "left and on nodes that are gone" in cluster.reason("g")
        for name, where in cluster.bound("g").items():
            if where == "n0":
                cluster.delete_pod(name)
        await cluster.settle()

    assert set(cluster.bound("g").values()) == {"n1", "n2"}
