"""Placement: every plan is valid by the naive reference, and one is found if there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings, strategies as st

from kubekit.objects.core import Node, Pod
from muster.contract.gang import Topology
from muster.scheduler.cluster.snapshot import Placement
from muster.scheduler.gangs.members import group_by_class
from muster.scheduler.placement.demand import Demand, DomainDemand, Plan, Unplaced
from muster.scheduler.placement.place import place
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests.muster.scheduler.builders import node, pod
from tests.muster.scheduler.placement import naive_placement

TAINT = ("dedicated", "team", "NoSchedule")
TOLERATION = {"key": "dedicated", "operator": "Exists"}


def away_from(label: str, topology: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": topology}
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": anti}}


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    return [
        node(
            f"n{i}",
            gpus=draw(st.integers(0, 4)),
            cpu=str(draw(st.integers(1, 4))),
            pods=draw(st.integers(1, 6)),
            labels={"zone": draw(st.sampled_from("ab")), "disk": draw(st.sampled_from(["x", "y"]))},
            taints=(TAINT,) if draw(st.integers(0, 3)) == 0 else (),
            ready=draw(st.integers(0, 7)) > 0,
        )
        for i in range(draw(st.integers(1, 4)))
    ]


@st.composite
def kinds_of_pods(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["tolerations"] = [TOLERATION]
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = {"disk": draw(st.sampled_from(["x", "y"]))}
    if draw(st.integers(0, 3)) == 0:
        spec |= away_from(draw(st.sampled_from("pq")), draw(st.sampled_from(["zone", "disk"])))
    return {
        "gpus": draw(st.integers(0, 3)),
        "cpu": draw(st.sampled_from(["500m", "1", "2"])),
        "ports": (draw(st.integers(8000, 8001)),) if draw(st.integers(0, 3)) == 0 else (),
        "labels": {"app": draw(st.sampled_from("pq"))},
        "spec": spec,
    }


@st.composite
def problems(draw: st.DrawFn, classes: int) -> tuple[list[Node], list[Pod], list[Pod]]:
    """Nodes, pods that run already (if they may), and a gang of up to five."""
    kinds = draw(st.lists(kinds_of_pods(), min_size=1, max_size=classes))
    running = [pod(f"old-{i}", **draw(kinds_of_pods())) for i in range(draw(st.integers(0, 3)))]
    size = draw(st.integers(1, 5))
    gang = [pod(f"g-{i}", group="g", **draw(st.sampled_from(kinds))) for i in range(size)]
    return draw(nodes()), running, gang


def cluster(nodes: list[Node], running: list[Pod]) -> tuple[State, naive_placement.Placed]:
    state = State(Settings())
    for item in nodes:
        state.node_changed(None, item)
    placed: naive_placement.Placed = []
    for member in running:
        home = next((n for n in nodes if naive_placement.allowed(member, n, placed)), None)
        if home is not None:
            placed.append((member, home))
            cls = state.snapshot.classes.of(member)
            state.snapshot.assume([Placement(member, home.metadata.name, cls)])
    return state, placed


def solve(state: State, gang: list[Pod]) -> Plan | Unplaced:
    return place(state.snapshot, Demand(group_by_class(state.snapshot.classes, gang), len(gang)))


def assert_valid(
    plan: Plan, nodes: list[Node], placed: naive_placement.Placed, gang: list[Pod]
) -> None:
    assert sorted(p.pod.metadata.uid for p in plan.placements) == [g.metadata.uid for g in gang]
    by_name = {n.metadata.name: n for n in nodes}
    so_far = list(placed)
    for member, name, _ in plan.placements:
        assert naive_placement.allowed(member, by_name[name], so_far), (
            f"{member.metadata.name} on {name}"
        )
        so_far.append((member, by_name[name]))


@settings(max_examples=400)
@given(problems(classes=3))
def test_every_plan_is_valid_by_the_naive_reference(
    problem: tuple[list[Node], list[Pod], list[Pod]],
) -> None:
    nodes, running, gang = problem
    state, placed = cluster(nodes, running)
    before = state.snapshot.nodes.free.copy() if len(state.snapshot.nodes) else None

    result = solve(state, gang)

    event(type(result).__name__)
    if isinstance(result, Plan):
        assert_valid(result, nodes, placed, gang)
    if before is not None:
        assert (state.snapshot.nodes.free[: len(before)] == before).all()


@settings(max_examples=400)
@given(problems(classes=1))
def test_a_gang_of_equal_pods_is_placed_whenever_it_can_be(
    problem: tuple[list[Node], list[Pod], list[Pod]],
) -> None:
    nodes, running, gang = problem
    state, placed = cluster(nodes, running)

    assert isinstance(solve(state, gang), Plan) == naive_placement.possible(gang, nodes, placed)


@settings(max_examples=300)
@given(problems(classes=1))
def test_a_gang_of_equal_pods_that_needs_one_zone_is_placed_whenever_a_zone_holds_it(
    problem: tuple[list[Node], list[Pod], list[Pod]],
) -> None:
    nodes, running, gang = problem
    state, placed = cluster(nodes, running)
    demand = Demand(group_by_class(state.snapshot.classes, gang), len(gang))
    demand = replace(demand, domain=DomainDemand(Topology(required=("zone",))))

    result = place(state.snapshot, demand)

    zones = {n.metadata.name: n.metadata.labels["zone"] for n in nodes}
    rooms = [[n for n in nodes if zones[n.metadata.name] == zone] for zone in "ab"]
    holds = any(naive_placement.possible(gang, room, placed) for room in rooms)
    assert isinstance(result, Plan) == holds
    if isinstance(result, Plan):
        assert_valid(result, nodes, placed, gang)
        assert len({zones[placement.node] for placement in result.placements}) == 1


@settings(max_examples=200)
@given(problems(classes=3))
def test_the_same_snapshot_gives_the_same_plan_whatever_the_order_of_events(
    problem: tuple[list[Node], list[Pod], list[Pod]],
) -> None:
    nodes, running, gang = problem
    state, _ = cluster(nodes, running)
    other = State(Settings())
    for slot in state.snapshot.slots.values():
        cls = other.snapshot.classes.of(slot.pod)
        other.snapshot.assume([Placement(slot.pod, slot.node, cls)])
    for item in reversed(nodes):
        other.node_changed(None, item)

    def places(result: Plan | Unplaced) -> object:
        if isinstance(result, Unplaced):
            return None
        return {p.pod.metadata.name: p.node for p in result.placements}

    assert places(solve(state, gang)) == places(solve(other, gang))


def test_a_gang_uses_as_few_nodes_as_possible() -> None:
    state, _ = cluster([node(f"n{i}", gpus=8) for i in range(4)], [])

    result = solve(state, [pod(f"g-{i}", gpus=1, group="g") for i in range(16)])

    assert isinstance(result, Plan)
    assert {p.node for p in result.placements} == {"n0", "n1"}


def test_the_tightest_node_that_holds_the_whole_gang_is_taken() -> None:
    state, _ = cluster([node("a", gpus=8), node("b", gpus=4), node("c", gpus=6)], [])

    result = solve(state, [pod(f"g-{i}", gpus=1, group="g") for i in range(4)])

    assert isinstance(result, Plan)
    assert {p.node for p in result.placements} == {"b"}


def test_pods_that_need_no_gpu_stay_off_gpu_nodes_unless_their_gang_is_there() -> None:
    state, _ = cluster([node("gpu", gpus=8), node("plain")], [])
    lone = solve(state, [pod("p", group="p")])
    mixed = solve(state, [pod("w", gpus=1, group="g"), pod("ps", group="g")])

    assert isinstance(lone, Plan)
    assert isinstance(mixed, Plan)
    assert [p.node for p in lone.placements] == ["plain"]
    assert {p.node for p in mixed.placements} == {"gpu"}


@pytest.mark.parametrize("first", ["big", "small"])
def test_an_unlucky_order_of_classes_does_not_make_a_placeable_gang_wait(first: str) -> None:
    state, _ = cluster([node("a", cpu="4", gpus=1), node("b", cpu="2", gpus=1)], [])
    big = pod("big", cpu="3500m", group="g")
    small = [pod(f"small-{i}", cpu="1", gpus=0, group="g") for i in range(2)]
    members = [big, *small] if first == "big" else [*small, big]

    assert isinstance(solve(state, members), Plan)
