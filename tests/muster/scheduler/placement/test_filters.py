"""Where a pod may go: each filter with Kubernetes' own meaning, through `place`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubekit.objects.core import Pod
from muster.scheduler.cluster.snapshot import Placement
from muster.scheduler.gangs.members import group_by_class
from muster.scheduler.placement.demand import Demand, Plan
from muster.scheduler.placement.place import place
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests.muster.scheduler.builders import node, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def cluster(*nodes: Any, running: dict[str, Pod] | None = None) -> State:
    state = State(Settings())
    for item in nodes:
        state.node_changed(None, item)
    for name, placed in (running or {}).items():
        cls = state.snapshot.classes.of(placed)
        state.snapshot.assume([Placement(placed, name.partition("/")[0], cls)])
    return state


def homes(state: State, *pods: Pod) -> list[str] | None:
    """Where the pods go together, by name of pod; None if they do not fit."""
    result = place(state.snapshot, Demand(group_by_class(state.snapshot.classes, pods), len(pods)))
    if not isinstance(result, Plan):
        return None
    return [p.node for p in sorted(result.placements, key=lambda p: p.pod.metadata.name)]


def choosing(**terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [terms]}}}}


def near(app: str, topology: str, kind: str = "podAffinity", **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology, **more}
    return {"affinity": {kind: {REQUIRED: [term]}}}


def away(app: str, topology: str, **more: Any) -> dict[str, Any]:
    return near(app, topology, "podAntiAffinity", **more)


def spread(topology: str, skew: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": skew,
                "topologyKey": topology,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
                **more,
            }
        ]
    }


X = {"app": "x"}


@pytest.mark.parametrize(
    ("row", "allowed"),
    [
        ({"key": "gen", "operator": "In", "values": ["7", "8"]}, {"seven"}),
        ({"key": "gen", "operator": "NotIn", "values": ["7"]}, {"nine", "none", "odd"}),
        ({"key": "gen", "operator": "Exists"}, {"nine", "seven", "odd"}),
        ({"key": "gen", "operator": "DoesNotExist"}, {"none"}),
        ({"key": "gen", "operator": "Gt", "values": ["7"]}, {"nine"}),
        ({"key": "gen", "operator": "Lt", "values": ["9"]}, {"seven"}),
        ({"key": "gen", "operator": "Like", "values": ["9"]}, set()),
    ],
)
def test_node_affinity_supports_every_operator(row: dict[str, Any], allowed: set[str]) -> None:
    nodes = [node("seven", labels={"gen": "7"}), node("nine", labels={"gen": "9"}), node("none")]
    nodes.append(node("odd", labels={"gen": "8_0"}))
    ways = {n.metadata.name: cluster(n) for n in nodes}
    wanted = pod("p", spec=choosing(matchExpressions=[row]))

    assert {name for name, state in ways.items() if homes(state, wanted)} == allowed


def test_match_fields_select_a_node_by_name() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["b"]}

    assert homes(cluster(node("a"), node("b")), pod("p", spec=choosing(matchFields=[field]))) == [
        "b"
    ]


def test_node_selector_needs_every_label() -> None:
    state = cluster(node("a", labels={"k": "1"}), node("b", labels={"k": "1", "l": "2"}))

    assert homes(state, pod("p", spec={"nodeSelector": {"k": "1", "l": "2"}})) == ["b"]


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        (None, False),
        ({"key": "dedicated", "value": "ml", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "web", "effect": "NoSchedule"}, False),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_taints_need_a_toleration(toleration: dict[str, str] | None, fits: bool) -> None:
    state = cluster(node("n", taints=(("dedicated", "ml", "NoSchedule"),)))
    wanted = pod("p", spec={"tolerations": [toleration] if toleration else []})

    assert (homes(state, wanted) is not None) == fits


@pytest.mark.parametrize(
    "unfit",
    [
        node("n", unschedulable=True),
        node("n", ready=False),
        node("n", taints=(("node.kubernetes.io/not-ready", "", "NoExecute"),)),
        node("n", pods=0),
    ],
)
def test_a_node_that_is_cordoned_down_or_full_of_pods_takes_none(unfit: Any) -> None:
    everything = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}

    assert homes(cluster(unfit), pod("p", spec={"tolerations": [everything]})) is None


def test_two_pods_of_one_gang_never_share_a_host_port() -> None:
    pair = [pod("a", ports=(80,)), pod("b", ports=(80,))]

    assert homes(cluster(node("n1")), *pair) is None
    assert homes(cluster(node("n1"), node("n2")), *pair) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "0.0.0.0"}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
    ],
)
def test_host_ports_clash_by_number_protocol_and_address(
    first: dict[str, Any], second: dict[str, Any], clash: bool
) -> None:
    def asking(name: str, port: dict[str, Any]) -> Pod:
        return pod(name, spec={"containers": [{"name": "c", "ports": [port]}]})

    state = cluster(node("n"), running={"n": asking("old", first)})

    assert (homes(state, asking("new", second)) is None) == clash


def test_affinity_places_a_pod_in_the_domain_of_the_pods_it_names() -> None:
    zones = [node(n, labels={"zone": z}) for n, z in (("a1", "a"), ("b1", "b"), ("b2", "b"))]
    state = cluster(*zones, running={"b1": pod("db", labels=X)})

    assert homes(state, pod("p", spec=near("x", "zone")))[0].startswith("b")  # type: ignore[index]
    assert homes(state, pod("p", spec=near("y", "zone"))) is None


def test_a_group_with_affinity_to_itself_can_start() -> None:
    zones = [node(n, labels={"zone": n[0]}, gpus=1) for n in ("a1", "a2", "b1", "b2", "b3")]
    members = [pod(f"p{i}", gpus=1, labels=X, spec=near("x", "zone")) for i in range(3)]

    chosen = homes(cluster(*zones), *members)

    assert chosen is not None
    assert {name[0] for name in chosen} == {"b"}


def test_roles_with_affinity_to_each_other_get_a_domain_that_holds_them_all() -> None:
    zones = [node(n, labels={"zone": n[0]}, gpus=1, cpu="2") for n in ("a1", "a2", "b1", "b2")]
    zones += [node("b3", labels={"zone": "b"}, cpu="2")]
    workers = [pod(f"w{i}", gpus=1, labels=X, spec=near("x", "zone")) for i in range(2)]
    server = pod("z", cpu="2", labels=X, spec=near("x", "zone"))

    chosen = homes(cluster(*zones), *workers, server)

    assert chosen is not None
    assert {name[0] for name in chosen} == {"b"}


def test_anti_affinity_keeps_members_on_different_nodes() -> None:
    members = [pod(f"p{i}", labels=X, spec=away("x", "kubernetes.io/hostname")) for i in range(3)]

    assert homes(cluster(node("a"), node("b")), *members) is None
    assert sorted(homes(cluster(node("a"), node("b"), node("c")), *members) or []) == [
        "a",
        "b",
        "c",
    ]


def test_anti_affinity_of_placed_pods_applies_to_new_pods_too() -> None:
    shy = pod("shy", spec=away("x", "zone"))
    state = cluster(node("n", labels={"zone": "z"}), running={"n": shy})

    assert homes(state, pod("p", labels=X)) is None
    assert homes(state, pod("q", labels={"app": "y"})) == ["n"]


def test_anti_affinity_applies_to_its_own_namespace_by_default() -> None:
    other = pod("there", labels=X, namespace="other")
    state = cluster(node("n", labels={"zone": "z"}), running={"n": other})

    assert homes(state, pod("p", spec=away("x", "zone"))) == ["n"]
    assert homes(state, pod("q", spec=away("x", "zone", namespaces=["other"]))) is None
    assert homes(state, pod("r", spec=away("x", "zone", namespaceSelector={}))) is None


def test_match_label_keys_narrow_a_term_to_the_pod_s_own_revision() -> None:
    old = pod("old", labels={**X, "rev": "1"})
    state = cluster(node("n", labels={"zone": "z"}), running={"n": old})
    term = away("x", "zone", matchLabelKeys=["rev"])

    assert homes(state, pod("p", labels={**X, "rev": "2"}, spec=term)) == ["n"]
    assert homes(state, pod("q", labels={**X, "rev": "1"}, spec=term)) is None


def test_pods_on_nodes_without_the_label_do_not_stop_the_first_pod_of_a_group() -> None:
    nodes = (node("bare"), node("in-z", labels={"zone": "z"}))
    state = cluster(*nodes, running={"bare": pod("stray", labels=X)})

    assert homes(state, pod("first", labels=X, spec=near("x", "zone"))) == ["in-z"]


def test_spread_keeps_the_domains_even() -> None:
    zones = [node(n, labels={"zone": n}) for n in ("a", "b", "c")]
    members = [pod(f"p{i}", labels=X, spec=spread("zone")) for i in range(7)]

    chosen = homes(cluster(*zones), *members)

    assert chosen is not None
    assert sorted(chosen.count(z) for z in "abc") == [2, 2, 3]


def test_spread_makes_a_gang_wait_when_a_domain_is_full() -> None:
    zones = [node("a", gpus=4, labels={"zone": "a"}), node("b", gpus=1, labels={"zone": "b"})]
    members = [pod(f"p{i}", gpus=1, labels=X, spec=spread("zone")) for i in range(4)]

    assert homes(cluster(*zones), *members) is None
    assert homes(cluster(*zones), *members[:3]) is not None


def test_spread_over_too_few_domains_counts_an_empty_domain() -> None:
    state = cluster(node("a", labels={"zone": "a"}))
    members = [pod(f"p{i}", labels=X, spec=spread("zone", minDomains=2)) for i in range(2)]

    assert homes(state, *members[:1]) == ["a"]
    assert homes(state, *members) is None


def test_a_preferred_node_is_taken_if_there_is_room() -> None:
    liked = {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}
    wish = {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 5, "preference": liked}]}}}
    state = cluster(node("a"), node("b", labels={"fast": "yes"}))

    assert homes(state, pod("p", spec=wish)) == ["b"]


def test_the_room_of_a_nominated_pod_is_not_given_away() -> None:
    foreign = pod("foreign", gpus=1, scheduler="default-scheduler", priority=5)
    foreign = replace(foreign, status=replace(foreign.status, nominated_node_name="n"))
    state = cluster(node("n", gpus=1))
    state.pod_changed(None, foreign)

    assert homes(state, pod("p", gpus=1)) is None
