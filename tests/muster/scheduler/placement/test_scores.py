"""Which of several nodes is taken: racks, spread on request, preferences both ways, weights."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.core import Pod
from muster.scheduler.gangs.members import group_by_class
from muster.scheduler.placement.demand import Demand, NodePreference, Plan
from muster.scheduler.placement.place import place
from muster.scheduler.settings import Settings, Weights
from muster.scheduler.state import State
from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster
from tests.muster.scheduler.placement.test_filters import PREFERRED, cluster, homes, near

HOST = "kubernetes.io/hostname"
RACKS = NodePreference(rack="rack")


def rack_of(name: str, rack: str, gpus: int) -> Any:
    return node(name, gpus=gpus, labels={"rack": rack})


def placed(state: State, manner: NodePreference, *pods: Pod) -> list[str]:
    result = place(
        state.snapshot,
        Demand(group_by_class(state.snapshot.classes, pods), len(pods), preference=manner),
    )
    assert isinstance(result, Plan)
    return sorted(p.node for p in result.placements)


def prefers(kind: str, app: str, weight: int = 10) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"}
    return {"affinity": {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}}


def test_a_gang_stays_within_one_rack_where_one_holds_it_on_as_few_nodes() -> None:
    names = [("a", "r1", 2), ("b", "r2", 4), ("c", "r3", 4), ("d", "r3", 4)]
    state = cluster(*(rack_of(*row) for row in names))
    pods = gang("g", 8, gpus=1)

    assert placed(state, NodePreference(), *pods) == ["b"] * 4 + ["c"] * 4
    assert placed(state, RACKS, *pods) == ["c"] * 4 + ["d"] * 4


def test_fewest_nodes_come_before_fewest_racks() -> None:
    small = [rack_of(f"s{i}", "r1", 1) for i in range(4)]
    state = cluster(*small, rack_of("x", "r2", 2), rack_of("y", "r3", 2))

    assert placed(state, RACKS, *gang("g", 4, gpus=1)) == ["x", "x", "y", "y"]


def test_a_gang_larger_than_any_rack_uses_as_few_racks_as_it_can() -> None:
    racks = ["r1", "r2", "r3", "r3", "r1", "r2", "r3"]
    state = cluster(*(rack_of(f"n{i}", rack, 2) for i, rack in enumerate(racks)))

    homes = placed(state, RACKS, *gang("g", 10, gpus=1))

    assert {racks[int(name[1:])] for name in homes} == {"r3", "r1"}


def test_nodes_without_the_rack_label_are_in_no_rack() -> None:
    state = cluster(node("a", gpus=2), node("b", gpus=2), rack_of("c", "r", 2))

    assert len(placed(state, RACKS, *gang("g", 6, gpus=1))) == 6


def test_a_gang_that_asks_for_it_is_spread_evenly() -> None:
    state = cluster(*(node(f"n{i}", gpus=4) for i in range(3)))

    homes = placed(state, NodePreference(spread=True), *gang("g", 7, gpus=1))

    assert sorted(homes.count(f"n{i}") for i in range(3)) == [2, 2, 3]


def test_spread_also_holds_for_pods_that_are_placed_one_by_one() -> None:
    state = cluster(*(node(f"n{i}", gpus=4, labels={"zone": "z"}) for i in range(3)))
    pods = gang("g", 6, gpus=1, labels={"app": "x"}, spec=near("x", "zone"))

    homes = placed(state, NodePreference(spread=True), *pods)

    assert [homes.count(f"n{i}") for i in range(3)] == [2, 2, 2]


@pytest.mark.looptime
@pytest.mark.parametrize("coupled", [False, True])
def test_preferences_choose_among_the_nodes_of_a_spread_gang(coupled: bool) -> None:
    zone, soft = {"zone": "z"}, (("spot", "", "PreferNoSchedule"),)
    roomy = node("a", gpus=4, labels=zone, taints=soft)
    state = cluster(roomy, *(node(name, gpus=2, labels=zone) for name in "bc"))
    spec = near("x", "zone") if coupled else {}
    pods = gang("g", 2, gpus=1, labels={"app": "x"}, spec=spec)

    assert placed(state, NodePreference(spread=True), *pods) == ["b", "c"]


@pytest.mark.parametrize("on_group", [True, False])
async def test_the_annotation_for_spread_is_read_from_the_group_or_the_pods(on_group: bool) -> None:
    marks = {"muster.dev/placement": "spread"}
    fake = FakeCluster()
    fake.add(node("n1", gpus=4), node("n2", gpus=4))
    fake.add(volcano_group("g", 2, annotations=marks if on_group else {}))
    fake.add(*gang("g", 2, gpus=1, annotations={} if on_group else marks))
    await fake.run()

    assert set(fake.bound().values()) == {"n1", "n2"}


@pytest.mark.looptime
async def test_the_settings_can_spread_everything() -> None:
    fake = FakeCluster(Settings(placement="spread"))
    fake.add(node("n1", gpus=4), node("n2", gpus=4))
    fake.add(volcano_group("g", 2), *gang("g", 2, gpus=1))
    await fake.run()

    assert set(fake.bound().values()) == {"n1", "n2"}


def test_a_pod_goes_near_placed_pods_that_prefer_it() -> None:
    fan = pod("fan", spec=prefers("podAffinity", "star"))
    tight, roomy = node("a", cpu="4", labels={"zone": "a"}), node("b", labels={"zone": "b"})
    state = cluster(tight, roomy, running={"b": fan})

    assert homes(state, pod("p", labels={"app": "star"})) == ["b"]
    assert homes(state, pod("p", labels={"app": "other"})) == ["a"]


def test_a_pod_stays_away_from_placed_pods_that_prefer_to_be_apart() -> None:
    hermit = pod("hermit", spec=prefers("podAntiAffinity", "noise"))
    state = cluster(
        node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"}), running={"b": hermit}
    )

    assert homes(state, pod("p", labels={"app": "noise"})) == ["a"]
    assert homes(state, pod("p", labels={"app": "quiet"})) == ["b"]


def test_a_preference_ends_with_its_pod() -> None:
    fan = pod("fan", cpu="0", spec=prefers("podAffinity", "star"))
    state = cluster(
        node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"}), running={"b": fan}
    )
    state.unassume(fan.metadata.uid)

    assert homes(state, pod("p", labels={"app": "star"})) == ["a"]


def test_more_preferred_neighbours_are_better_than_one() -> None:
    friends = {f"{z}/{i}": pod(f"{z}{i}", labels={"app": "x"}) for z, i in ("a0", "b0", "b1")}
    state = cluster(
        node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"}), running=friends
    )

    assert homes(state, pod("p", spec=prefers("podAffinity", "x"))) == ["b"]


def apart(app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    return {"affinity": {"podAntiAffinity": {PREFERRED: weighted}}}


def test_members_that_prefer_to_be_apart_get_a_node_each() -> None:
    state = cluster(*(node(f"n{i}", gpus=4) for i in range(3)))
    members = gang("g", 3, gpus=1, labels={"app": "x"}, spec=apart("x"))

    assert placed(state, NodePreference(), *members) == ["n0", "n1", "n2"]


def test_members_that_prefer_to_be_apart_share_a_node_if_there_is_no_other() -> None:
    state = cluster(node("n0", gpus=4), node("n1", gpus=4))
    members = gang("g", 3, gpus=1, labels={"app": "x"}, spec=apart("x"))

    assert sorted(set(placed(state, NodePreference(), *members))) == ["n0", "n1"]


@pytest.mark.parametrize("preference", [NodePreference(), RACKS])
def test_preferred_nodes_come_before_fewest_nodes_and_racks(preference: NodePreference) -> None:
    fast = [node(f"f{i}", gpus=1, labels={"disk": "ssd", "rack": f"r{i}"}) for i in range(2)]
    state = cluster(*fast, node("big", gpus=8, labels={"rack": "r9"}))
    expression = {"key": "disk", "operator": "In", "values": ["ssd"]}
    weighted = [{"weight": 1, "preference": {"matchExpressions": [expression]}}]
    spec = {"affinity": {"nodeAffinity": {PREFERRED: weighted}}}

    assert placed(state, preference, *gang("g", 2, gpus=1, spec=spec)) == ["f0", "f1"]
    assert placed(state, preference, *gang("g", 3, gpus=1, spec=spec)) == ["big", "f0", "f1"]


def test_a_weight_of_zero_leaves_its_consideration_out() -> None:
    state = cluster(node("a", gpus=4, cpu="4"), node("b", cpu="64"))

    assert placed(state, NodePreference(), pod("p")) == ["b"]
    assert placed(state, NodePreference(Weights(special=0)), pod("p")) == ["a"]


def test_a_larger_weight_reverses_an_order() -> None:
    state = cluster(node("a", gpus=4, cpu="4"), node("b", cpu="64"))

    assert placed(state, NodePreference(Weights(special=1e-6, tight=1000)), pod("p")) == ["a"]


def both(first: str, second: str) -> dict[str, Any]:
    """Near pods that have both labels, by two terms."""
    terms = [
        {"labelSelector": {"matchLabels": {key: "yes"}}, "topologyKey": "zone"}
        for key in (first, second)
    ]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"podAffinity": {required: terms}}}


def test_of_several_affinity_terms_one_pod_must_match_all() -> None:
    halves = {
        "a/1": pod("x", labels={"red": "yes"}),
        "a/2": pod("y", labels={"blue": "yes"}),
        "b": pod("z", labels={"red": "yes", "blue": "yes"}),
    }
    zones = [node(name, labels={"zone": name}) for name in "ab"]

    assert homes(cluster(*zones, running=halves), pod("p", spec=both("red", "blue"))) == ["b"]
    del halves["b"]
    assert homes(cluster(*zones, running=halves), pod("p", spec=both("red", "blue"))) is None


def test_the_first_pod_of_a_group_that_matches_all_its_own_terms_may_go_anywhere() -> None:
    zones = [node(name, labels={"zone": name}) for name in "ab"]
    half = {"a": pod("x", labels={"red": "yes"})}
    mine = pod("p", labels={"red": "yes", "blue": "yes"}, spec=both("red", "blue"))

    assert homes(cluster(*zones, running=half), mine) is not None


def test_a_node_with_a_soft_taint_comes_last_unless_the_taint_is_tolerated() -> None:
    soft = ("spot", "", "PreferNoSchedule")
    state = cluster(node("a", gpus=2, taints=(soft,)), node("b", gpus=4))
    tolerant = {"tolerations": [{"key": "spot", "operator": "Exists"}]}

    assert placed(state, NodePreference(), pod("p", gpus=1)) == ["b"]
    assert placed(state, NodePreference(), pod("p", gpus=1, spec=tolerant)) == ["a"], (
        "the closest fit"
    )
    assert placed(state, NodePreference(), *gang("g", 6, gpus=1)) == ["a"] * 2 + ["b"] * 4
