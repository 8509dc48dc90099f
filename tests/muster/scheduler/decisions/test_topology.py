"""A gang in one domain of a node label: which domain, who joins it, and why a gang waits."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.core import Node
from tests.muster.scheduler.builders import GPU, gang, native_group, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, replace
from tests.muster.words import short, tells

pytestmark = pytest.mark.looptime

RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"
ONE_RACK = {"muster.dev/topology": RACK}


def rack(name: str, *gpus: int, **more: Any) -> list[Node]:
    """Nodes `<rack>-0` and on with so many GPUs each."""
    labels = {RACK: name, **more.pop("labels", {})}
    return [node(f"{name}-{i}", gpus=each, labels=labels, **more) for i, each in enumerate(gpus)]


def racked(name: str, minimum: int, size: int = 0, **each: Any) -> list[Any]:
    """A gang of one GPU per member that must stay in one rack."""
    group = volcano_group(name, minimum, annotations=ONE_RACK, created=each.get("created", 0.0))
    return [group, *gang(name, size or minimum, **{"gpus": 1, "role": "worker", **each})]


def racks_of(cluster: FakeCluster, prefix: str) -> set[str]:
    return {
        cluster.nodes[where].metadata.labels.get(RACK, "")
        for where in cluster.bound(prefix).values()
    }


def add_label(item: Node, key: str, value: str) -> Node:
    labels = {**item.metadata.labels, key: value}
    return replace(item, metadata=replace(item.metadata, labels=labels))


async def test_a_gang_waits_rather_than_run_in_two_racks_and_says_which_rack_lacks_least() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2, 2), *rack("r7", 2, 4), *racked("g", 8))
    await cluster.run()

    assert cluster.bound() == {}
    words = f"needs one rack: r7 has room for 6 of 8 workers; {short(2)}; "
    words += (
        "2 nodes full with them; cannot start unless nodes are added: the largest, r7, would hold 6"
    )
    assert cluster.reason("g") == words


async def test_the_reason_counts_only_the_nodes_of_the_best_rack() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 1), *rack("r7", 4, 4), node("big", gpus=64))
    cluster.add(pod("other", gpus=2, spec={"nodeName": "r7-0"}), *racked("g", 8))
    await cluster.run()

    words = f"needs one rack: r7 has room for 6 of 8 workers; {short(2)}"
    assert cluster.reason("g").startswith(words)
    assert cluster.bound("g") == {}


async def test_the_fullest_rack_that_fits_is_taken_and_ties_go_by_name() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r3", 4, 4), *rack("r2", 4, 1), *rack("r1", 4, 4), *rack("r0", 3))
    cluster.add(*racked("a", 4), *racked("b", 5, created=1), *racked("c", 8, created=2))
    await cluster.run()

    assert racks_of(cluster, "a-") == {"r2"}
    assert racks_of(cluster, "b-") == {"r1"}
    assert racks_of(cluster, "c-") == {"r3"}


async def test_nodes_without_the_label_are_never_used() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8), *racked("g", 2))
    async with cluster.running():
        await cluster.settle()
        assert cluster.reason("g") == "needs one rack: no node has the label example.com/rack"
        cluster.add(add_label(cluster.nodes["n1"], RACK, "r1"))
        await cluster.settle()

    assert cluster.bound("g") == {"g-0": "n1", "g-1": "n1"}


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("example.com/rakc", "no node has the label example.com/rakc; the most similar is {}"),
        ("rack", "no node has the label rack; the most similar is {}"),
        ("rakc", "no node has the label rakc; the most similar is {}"),
        (f"{RACK},cage", "no node has the label cage"),
        ("fabric,cage", "no node has the labels fabric and cage"),
        (f"{ZONE},{RACK}", f"no node has all of the labels {ZONE} and {RACK}"),
    ],
)
async def test_the_reason_names_labels_that_no_node_has_and_the_nearest(
    labels: str, words: str
) -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 8), node("n1", gpus=8, labels={ZONE: "z1"}))
    marks = {"muster.dev/topology": labels}
    cluster.add(volcano_group("g", 2, annotations=marks), *gang("g", 2, gpus=1))
    await cluster.run()

    assert cluster.bound() == {}
    last = labels.rpartition(",")[2].rpartition("/")[2]
    assert cluster.reason("g") == f"needs one {last}: {words.format(RACK)}"


async def test_taints_and_held_room_count_per_rack() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 4, taints=(("dedicated", "x", "NoSchedule"),)), *rack("r2", 4))
    cluster.add(*racked("first", 4))
    async with cluster.running():
        await cluster.settle()
        assert racks_of(cluster, "first-") == {"r2"}
        cluster.finish("first-0", "Failed")
        cluster.add(*racked("second", 1, created=1))
        await cluster.settle(2)

    assert cluster.bound("second") == {}
    assert "needs one rack: r1 has room for 0 of 1 worker" in cluster.reason("second")
    assert "1 node tainted" in cluster.reason("second")


async def test_members_beyond_the_minimum_stay_in_the_rack_or_wait() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 3), *rack("r2", 8), *racked("g", 2, size=5))
    async with cluster.running():
        await cluster.settle()
        assert set(cluster.bound("g").values()) == {"r1-0"}
        assert len(cluster.bound("g")) == 3
        words = "needs one rack: its members run in r1, which has room for 0 of 2 workers"
        assert cluster.reason("g").startswith(words)
        cluster.add(*rack("r1", 3, 8))
        await cluster.settle()

    assert racks_of(cluster, "g-") == {"r1"}
    assert len(cluster.bound("g")) == 5


async def test_a_replacement_stays_in_the_rack_of_the_others_or_waits() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2, 2), *rack("r2", 8), *racked("g", 4))
    async with cluster.running():
        await cluster.settle()
        cluster.delete_node("r1-1")
        for name, where in cluster.bound("g").items():
            if where == "r1-1":
                cluster.delete_pod(name)
        cluster.add(*gang("g", 6, gpus=1, role="worker")[4:])
        await cluster.settle(400)
        assert racks_of(cluster, "g-") == {"r1"}
        assert len(cluster.bound("g")) == 2
        cluster.add(*rack("r1", 2, 2, 2)[1:])
        await cluster.settle()

    assert len(cluster.bound("g")) == 4
    assert racks_of(cluster, "g-") == {"r1"}


async def test_no_member_is_added_while_the_nodes_of_all_others_are_gone() -> None:
    """The nodes may come back with their pods: then the gang would run in two racks."""
    cluster = FakeCluster()
    (first,) = rack("r1", 4)
    cluster.add(first, *racked("g", 2, size=2))
    async with cluster.running():
        await cluster.settle()
        cluster.delete_node("r1-0")
        cluster.add(*rack("r2", 8), *gang("g", 3, gpus=1, role="worker")[2:])
        await cluster.settle()
        assert len(cluster.bound("g")) == 2
        assert "on nodes that are gone" in cluster.reason("g")
        cluster.add(first)
        await cluster.settle()

    assert set(cluster.bound("g").values()) == {"r1-0"}
    assert len(cluster.bound("g")) == 3


async def test_a_restarted_scheduler_keeps_a_gang_in_its_rack() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 3), *rack("r2", 8), *racked("g", 2))
    await cluster.run()
    assert set(cluster.bound("g").values()) == {"r1-0"}
    cluster.add(*gang("g", 5, gpus=1, role="worker")[2:])
    cluster.restart()
    await cluster.run()

    assert racks_of(cluster, "g-") == {"r1"}
    assert len(cluster.bound("g")) == 3


async def test_preemption_clears_one_rack_and_not_nodes_here_and_there() -> None:
    cluster = FakeCluster()
    for i in range(1, 5):
        cluster.add(*rack(f"r{i}", 2, 2))
        spec = {"nodeSelector": {RACK: f"r{i}"}}
        cluster.add(*(pod(f"low{i}-{n}", gpus=1, spec=spec, created=4 * n + i) for n in range(4)))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound("low")) == 16
        cluster.add(*racked("high", 3, priority=5, created=99))
        await cluster.settle(5)

    evicted = sorted(p.metadata.name for delete in cluster.deletes for p in delete.pods)
    assert len(evicted) == 3
    assert len({name[:4] for name in evicted}) == 1
    assert len(racks_of(cluster, "high-")) == 1
    assert len(cluster.bound("high")) == 3


async def test_nothing_is_evicted_if_no_rack_would_hold_the_gang() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2), *rack("r2", 2), *(pod(f"low{i}", gpus=1) for i in range(4)))
    async with cluster.running():
        await cluster.settle()
        cluster.add(*racked("high", 3, priority=5, created=9))
        await cluster.settle(60)

    assert cluster.deletes == []


async def test_a_topology_that_changes_while_members_run_moves_nobody() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2), *rack("r2", 2), volcano_group("g", 4), *gang("g", 4, gpus=1))
    async with cluster.running():
        await cluster.settle()
        assert len(cluster.bound("g")) == 4
        cluster.add(volcano_group("g", 4, annotations=ONE_RACK))
        await cluster.settle(60)
        assert len(cluster.bound("g")) == 4
        cluster.delete_pod("g-3")
        cluster.add(*gang("g", 5, gpus=1)[4:], *rack("r3", 8))
        await cluster.settle(400)

    assert cluster.deletes == []
    assert len(cluster.bound("g")) == 3
    words = "its members run in r1 and r2; no member joins them until all are restarted"
    assert cluster.reason("g") == f"needs one rack: {words}"


async def test_a_preferred_rack_is_taken_if_it_has_room_and_else_the_gang_is_split() -> None:
    prefers = {"muster.dev/topology-preferred": RACK}
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2, 2, 2), *rack("r2", 4), *rack("r3", 8), node("n", gpus=2))
    cluster.add(volcano_group("a", 4, annotations=prefers), *gang("a", 4, gpus=1))
    cluster.add(volcano_group("b", 14, annotations=prefers, created=1))
    cluster.add(*gang("b", 14, gpus=1, created=1))
    await cluster.run()

    assert racks_of(cluster, "a-") == {"r2"}
    assert len(cluster.bound("b-")) == 14


async def test_a_rack_is_preferred_in_a_required_zone() -> None:
    marks = {"muster.dev/topology": ZONE, "muster.dev/topology-preferred": RACK}
    cluster = FakeCluster()
    for zone in ("z1", "z2"):
        for i in range(2):  # both zones call their racks r0 and r1
            labels = {ZONE: zone, RACK: f"r{i}"}
            cluster.add(node(f"{zone}-{i}", gpus=4, labels=labels))
    cluster.add(volcano_group("small", 4, annotations=marks), *gang("small", 4, gpus=1))
    cluster.add(volcano_group("wide", 6, annotations=marks, created=1))
    cluster.add(*gang("wide", 6, gpus=1), volcano_group("late", 6, annotations=marks, created=2))
    cluster.add(*gang("late", 6, gpus=1))
    await cluster.run()

    assert set(cluster.bound("small").values()) == {"z1-0"}
    assert set(cluster.bound("wide").values()) == {"z2-0", "z2-1"}
    assert cluster.bound("late") == {}
    assert "needs one zone: z1 has room for 4 of 6 pods" in cluster.reason("late")


async def test_racks_of_the_same_name_in_two_zones_are_two_racks() -> None:
    marks = {"muster.dev/topology": f"{ZONE}, {RACK}"}
    cluster = FakeCluster()
    for zone in ("z1", "z2"):
        cluster.add(node(f"{zone}-n", gpus=2, labels={ZONE: zone, RACK: "r1"}))
    cluster.add(volcano_group("g", 4, annotations=marks), *gang("g", 4, gpus=1))
    await cluster.run()

    assert cluster.bound() == {}
    assert cluster.reason("g").startswith("needs one rack: z1/r1 has room for 2 of 4 pods")


@pytest.mark.parametrize("dialect", ["labels:4", "koordinator:4"])
async def test_pods_without_a_group_object_carry_the_annotation_themselves(dialect: str) -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2), *rack("r2", 3), *rack("r3", 4))
    cluster.add(*gang("g", 4, gpus=1, dialect=dialect, annotations=ONE_RACK))
    await cluster.run()

    assert set(cluster.bound("g").values()) == {"r3-0"}


async def test_roles_of_different_size_share_the_rack() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2, 2, cpu="4"), *rack("r2", 4, 4, cpu="4"))
    group = volcano_group("g", 4, roles={"chief": 1, "worker": 3}, annotations=ONE_RACK)
    chief = pod("g-chief", group="g", role="chief", cpu="4")
    workers = [pod(f"g-{i}", group="g", role="worker", gpus=1, cpu="1") for i in range(3)]
    cluster.add(group, chief, *workers)
    cluster.add(volcano_group("h", 11, annotations=ONE_RACK, created=1))
    cluster.add(pod("h-chief", group="h", role="chief", cpu="4"))
    cluster.add(*(pod(f"h-{i}", group="h", role="worker", cpu="500m") for i in range(10)))
    await cluster.run()

    # In r1 each role fits alone, but the chief takes a whole node and leaves two GPUs.
    assert racks_of(cluster, "g-") == {"r2"}
    assert len(cluster.bound("g")) == 4
    assert racks_of(cluster, "h-") == set()
    assert cluster.reason("h").startswith("needs one rack: r1 is too small: ")
    assert tells(cluster.reason("h"), "10 workers")


async def test_kubernetes_own_constraint_is_honoured() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2, 2), *rack("r2", 4, 1))
    constraints = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    cluster.add(native_group("g", 5, constraints), *gang("g", 5, gpus=1, dialect="native"))
    cluster.add(native_group("h", 5, constraints), *gang("h", 5, gpus=1, dialect="native"))
    await cluster.run()

    assert racks_of(cluster, "g-") == {"r2"}
    assert cluster.bound("h") == {}
    assert cluster.reason("h").startswith("needs one rack: r1 has room for 4 of 5 pods")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"schedulingConstraints": {"topology": [{"key": RACK}], "resource": [{"x": 1}]}},
            "the group sets schedulingConstraints.resource, which is not supported",
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": RACK, "tier": 2}]}},
            "the group sets tier in schedulingConstraints.topology, which is not supported",
        ),
        (
            {"schedulingConstraints": {"topology": {"key": RACK}}},
            "the group sets schedulingConstraints.topology in an unknown form,"
            " which is not supported",
        ),
        (
            {"parentCompositePodGroupName": "all"},
            "the group is part of the CompositePodGroup all, which is not supported",
        ),
        (
            {"resourceClaims": [{"name": "gpus"}]},
            "the group shares resourceClaims among its pods, which is not supported",
        ),
    ],
)
async def test_a_required_field_of_kubernetes_that_is_not_served_makes_the_gang_wait(
    spec: dict[str, Any], words: str
) -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 8), native_group("g", 2, spec))
    cluster.add(*gang("g", 2, gpus=1, dialect="native"))
    await cluster.run()

    assert cluster.bound() == {}
    assert cluster.reason("g") == words


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"subGroupPolicy": [{"name": "s"}], "topologyAffinity": None},
            "the group sets subGroupPolicy",
        ),
        (
            {"topologyAffinity": {"subGroupAffinity": {"required": [{"subGroups": ["a"]}]}}},
            "the group requires a topologyAffinity",
        ),
        (
            {
                "topologyAffinity": {
                    "podGroupAntiAffinity": {
                        "preferred": [{"weight": 1}],
                        "requiredDuringSchedulingIgnoredDuringExecution": [{"x": 1}],
                    }
                }
            },
            "the group requires a topologyAffinity",
        ),
        ({"topologyAffinity": [1]}, "the group requires a topologyAffinity"),
        (
            {"networkTopology": {"highestTierAlowed": 1}},
            "the group sets highestTierAlowed in networkTopology",
        ),
        ({"networkTopology": "hard"}, "the group sets networkTopology in an unknown form"),
        (
            {"networkTopology": {"mode": "hard", "highestTierAllowed": "1"}},
            "the group sets networkTopology in an unknown form",
        ),
        (
            {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}},
            "the group sets both highestTierAllowed and highestTierName in networkTopology",
        ),
    ],
)
async def test_a_required_field_of_volcano_that_is_not_served_makes_the_gang_wait(
    spec: dict[str, Any], words: str
) -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8), volcano_group("g", 2, spec=spec), *gang("g", 2, gpus=1))
    async with cluster.running():
        await cluster.settle()
        assert cluster.bound() == {}
        assert cluster.reason("g") == f"{words}, which is not supported"
        cluster.add(volcano_group("g", 2))
        await cluster.settle()

    assert len(cluster.bound("g")) == 2


@pytest.mark.parametrize(
    "spec",
    [
        {"topologyAffinity": {"podGroupAntiAffinity": {"preferred": [{"weight": 1}]}}},
        {"topologyAffinity": {}, "subGroupPolicy": []},
        {"networkTopology": {"mode": "soft", "later": 1}},
        {"networkTopology": {"mode": "soft", "highestTierAllowed": "1"}},
    ],
)
async def test_a_preference_of_volcano_that_is_not_served_makes_no_gang_wait(
    spec: dict[str, Any],
) -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8), volcano_group("g", 2, spec=spec), *gang("g", 2, gpus=1))
    await cluster.run()

    assert len(cluster.bound("g")) == 2


@pytest.mark.parametrize(
    ("marks", "dialect", "bound"),
    [
        ({"mode": "hard", "highest-tier": "1"}, "", 0),
        ({"highest-tier": "1"}, "", 0),
        ({"mode": "hard"}, "labels:2", 0),
        ({"mode": "soft", "highest-tier": "1"}, "", 2),
        ({"mode": "hard"}, "volcano", 2),
    ],
)
async def test_pods_for_which_volcano_would_create_a_group_with_a_topology_wait(
    marks: dict[str, str], dialect: str, bound: int
) -> None:
    """Volcano's controller reads these annotations of pods that have no PodGroup yet."""
    cluster = FakeCluster()
    annotations = {f"volcano.sh/network-topology-{name}": value for name, value in marks.items()}
    each: dict[str, Any] = {"gpus": 1, "annotations": annotations}
    each |= {"group": "g", "dialect": dialect} if dialect else {}
    cluster.add(node("n1", gpus=8), volcano_group("g", 2), *(pod(f"g-{i}", **each) for i in (0, 1)))
    await cluster.run()

    assert len(cluster.bound()) == bound
    words = "volcano.sh/network-topology-mode needs a PodGroup of Volcano, and the pod names none"
    reason = cluster.reason("g" if dialect else "g-0")
    assert reason == (f"{words}, which is not supported" if not bound else "")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("groups", '["default/a", "default/g"]', "groups joins several gangs"),
        (
            "network-topology-spec",
            '{"gatherStrategy":[{"layer":"rack","strategy":"MustGather"}]}',
            "network-topology-spec sets MustGather",
        ),
    ],
)
async def test_a_required_annotation_of_koordinator_that_is_not_served_makes_the_gang_wait(
    name: str, value: str, words: str
) -> None:
    cluster = FakeCluster()
    marks = {f"gang.scheduling.koordinator.sh/{name}": value}
    cluster.add(node("n1", gpus=8))
    cluster.add(*gang("g", 2, gpus=1, dialect="koordinator:2", annotations=marks))
    await cluster.run()

    assert cluster.bound() == {}
    assert cluster.reason("g") == f"gang.scheduling.koordinator.sh/{words}, which is not supported"


@pytest.mark.parametrize(
    ("policy", "bound"),
    [("single-numa-node", 0), ("restricted", 0), ("best-effort", 2), ("none", 2)],
)
@pytest.mark.parametrize("dialect", ["volcano", "labels:2"])
async def test_a_strict_numa_policy_of_volcano_makes_the_gang_wait(
    policy: str, bound: int, dialect: str
) -> None:
    cluster = FakeCluster()
    marks = {"volcano.sh/numa-topology-policy": policy}
    cluster.add(node("n1", gpus=8), volcano_group("g", 2))
    cluster.add(*gang("g", 2, gpus=1, dialect=dialect, annotations=marks))
    await cluster.run()

    assert len(cluster.bound()) == bound
    words = f"volcano.sh/numa-topology-policy is {policy}, which is not supported"
    assert cluster.reason("g") == (words if not bound else "")


async def test_a_pod_that_names_a_workload_of_kubernetes_1_35_waits() -> None:
    cluster = FakeCluster()
    reference = {"workloadRef": {"name": "w", "podGroup": "workers"}}
    cluster.add(node("n1", gpus=8), pod("p", gpus=1, spec=reference))
    await cluster.run()

    assert cluster.bound() == {}
    words = "the pod names its group in workloadRef, the form of Kubernetes 1.35"
    assert cluster.reason("p") == f"{words}, which is not supported"


async def test_a_starving_gang_reserves_nodes_only_if_a_rack_could_hold_it() -> None:
    cluster = FakeCluster()
    cluster.add(*rack("r1", 2), *rack("r2", 2), *racked("huge", 3))
    async with cluster.running():
        await cluster.settle(2000)
        cluster.add(pod("small", gpus=1, created=5))
        await cluster.settle()

    assert len(cluster.bound("small")) == 1
    assert cluster.used(GPU).total() == 1
