"""The invariants under random clusters, arrivals, deaths, node losses, faults and restarts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from tests.muster.scheduler.random_history import (
    RACK,
    TIERS,
    ZONE,
    RandomHistory,
    hyper_nodes,
    overlapping_hyper_nodes,
)

number = st.integers(0, 20)
few = st.integers(1, 4)
EVENTS = st.one_of(
    st.tuples(st.just("arrive"), st.integers(1, 5), few, st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("arrive"), st.integers(1, 5), few, st.integers(0, 2), st.just(0)),
    st.tuples(st.just("add_node"), st.integers(0, 4)),
    st.tuples(st.just("land"), number, st.sampled_from(["bound", "bound", "bound", "refused"])),
    st.tuples(st.just("land"), number, st.just("bound")),
    st.tuples(st.just("kill"), number, st.sampled_from(["delete", "Failed", "Succeeded"])),
    st.tuples(st.just("recreate")),
    st.tuples(st.just("decide"), st.sampled_from([0.0, 0.0, 1.0, 40.0])),
    st.tuples(st.just("lose_node"), number),
    st.tuples(st.just("cordon"), number),
    st.tuples(st.just("restart")),
    st.tuples(st.just("rerun"), number),
    st.tuples(st.just("befriend"), number),
)
HISTORIES = st.lists(EVENTS, min_size=5, max_size=60)
WAITS = st.one_of(
    EVENTS,
    st.tuples(st.just("grow"), number),
    st.tuples(
        st.just("arrive_with_claim"),
        st.integers(1, 3),
        few,
        st.sampled_from(["late", "immediate", "missing"]),
    ),
    st.tuples(st.just("bind_claim"), number),
    st.tuples(st.just("lose_group"), number),
    st.tuples(st.just("restore_groups")),
    st.tuples(st.just("uncordon"), number),
)
"""Events that make gangs wait for more than room."""
LEVELS = st.one_of(
    EVENTS,
    st.tuples(
        st.just("arrive_in_one"),
        st.sampled_from([RACK, ZONE, *TIERS]),
        st.integers(1, 5),
        few,
        st.integers(0, 2),
        st.integers(0, 2),
        st.sampled_from(["", RACK]),
    ),
    st.tuples(st.just("add_node"), st.integers(0, 4), st.integers(0, 4)),
    st.tuples(st.just("grow"), number),
    st.tuples(st.just("hide_node"), number),
    st.tuples(st.just("show_nodes")),
    st.tuples(st.just("uncordon"), number),
    st.tuples(st.just("lose_hyper_node"), number),
    st.tuples(st.just("restore_hyper_nodes")),
)
"""Events on a cluster of racks, with gangs that need one rack or zone."""


OVERLAPS = st.one_of(
    EVENTS,
    st.tuples(
        st.just("arrive_in_one"),
        st.sampled_from([*TIERS]),
        st.integers(1, 5),
        few,
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    st.tuples(st.just("grow"), number),
    st.tuples(st.just("hide_node"), number),
    st.tuples(st.just("show_nodes")),
    st.tuples(st.just("uncordon"), number),
)
"""Events on a cluster whose HyperNodes overlap."""

REFUSED_WHILE_A_SIBLING_IS_BOUND: list[tuple[Any, ...]] = [
    ("arrive", 1, 1, 1, 0),
    ("land", 0, "bound"),
    ("lose_node", 2),
    ("arrive", 2, 2, 2, 1),
    ("lose_node", 0),
    ("land", 0, "refused"),
]
"""The gang could evict for the refused member; the bind of the other one is still in flight."""
IN_FLIGHT_PAST_THE_RELEASE: list[tuple[Any, ...]] = [
    ("arrive", 2, 2, 0, 0),
    ("lose_node", 0),
    ("lose_node", 0),
    ("lose_node", 0),
    ("land", 0, "refused"),
    ("decide", 40.0),
]
"""The gang should be released, and its only bound member is still being bound."""
STARVES_BEHIND_ANOTHER: list[tuple[Any, ...]] = [
    ("arrive", 1, 1, 2, 0),
    ("lose_node", 1),
    ("restart",),
    ("hide_node", 1),
    ("lose_node", 0),
    ("lose_node", 0),
    ("arrive_in_one", RACK, 1, 1, 1, 0, ""),
    ("arrive_in_one", RACK, 1, 1, 0, 0, ""),
    ("decide", 40.0),
]
"""Both gangs starve at once, and the node that is left could take either."""
BELOW_ITS_RUNNING_MEMBERS: list[tuple[Any, ...]] = [
    ("arrive", 3, 1, 2, 1),
    ("add_node", 0),
    ("befriend", 0),
    ("arrive", 2, 2, 2, 1),
    ("arrive", 1, 1, 0, 0),
]
"""A member that waits gives the first gang a lower priority than its running members have."""
SURPLUS_LANDS_BEFORE_THE_MINIMUM: list[tuple[Any, ...]] = [
    ("arrive", 3, 2, 1, 0),
    ("grow", 0),
    ("land", 0, "bound"),
    ("land", 1, "bound"),
    ("lose_node", 0),
    ("lose_node", 0),
    ("hide_node", 0),
    ("hide_node", 0),
    ("recreate",),
    ("restart",),
    ("decide", 40.0),
]
"""A gang that got its minimum by surplus, and lost a member while other binds were in flight."""


def live(history: list[tuple[Any, ...]], *, preempt: bool) -> RandomHistory:
    """Let a history happen, the scheduler looking after each event."""
    world = RandomHistory(preempt=preempt)
    for gpus in (4, 2, 2):
        world.add_node(gpus)
    for name, *arguments in history:
        getattr(world, name)(*arguments)
        world.decide()
        world.check_books()
    return world


def waiting_gangs_can_be_woken(history: list[tuple[Any, ...]], *, preempt: bool) -> None:
    world = RandomHistory(preempt=preempt, starvation_after=30.0)
    for gpus in (4, 2, 2):
        world.add_node(gpus)
    for name, *arguments in history:
        getattr(world, name)(*arguments)
        world.decide()
        world.check_books()
        world.check_rests()
    world.restore_groups()
    calm(world, 2)
    world.check_rests()
    world.check_nothing_was_missed()


def calm(world: RandomHistory, seconds: int) -> None:
    """Faults stop: binds land, controllers recreate, time passes."""
    for _ in range(seconds * 2):
        world.recreate()
        world.decide(0.5)
        while world.in_flight:
            world.land(0, "bound")
        world.decide()


def no_half_gang_remains(history: list[tuple[Any, ...]], *, preempt: bool) -> None:
    world = live(history, preempt=preempt)

    calm(world, 10)

    for name, group in world.groups.items():
        there = len(world.bound(name))
        whole = there + world.succeeded(name) >= group.spec.min_member
        assert there == 0 or whole or name in world.was_whole
    world.check_books()


def rooms_come_back(history: list[tuple[Any, ...]]) -> None:
    quiet = [e for e in history if e[0] not in ("lose_node", "cordon", "restart", "kill")]
    world = live([("land", 0, "bound") if e[0] == "land" else e for e in quiet], preempt=False)
    calm(world, 2)
    whole = {n for n, g in world.groups.items() if len(world.bound(n)) >= g.spec.min_member}

    for event in history:
        if event[0] == "kill" and event[2] != "Succeeded":
            world.kill(event[1], event[2])
            world.decide()
            whole = {name for name in whole if world.bound(name)}  # else its room is free at once
    world.arrive(1, 1, 1, 0)  # a rival that would take any free room at once
    world.decide()
    calm(world, 2)

    for name in whole:
        assert len(world.bound(name)) >= world.groups[name].spec.min_member


def members_share_their_domain(history: list[tuple[Any, ...]], *, preempt: bool) -> None:
    world = RandomHistory(preempt=preempt, starvation_after=30.0, hyper_nodes=hyper_nodes())
    for rack, gpus in ((1, 4), (1, 2), (2, 2), (3, 4), (0, 4)):
        world.add_node(gpus, rack)
    for name, *arguments in history:
        getattr(world, name)(*arguments)
        world.decide()
        world.check_books()
        world.check_domains()
        world.check_rests()
    world.show_nodes()
    calm(world, 10)
    world.check_domains()
    world.check_rests()
    world.check_nothing_was_missed()


def members_share_a_hyper_node(history: list[tuple[Any, ...]], *, preempt: bool) -> None:
    overlapping = overlapping_hyper_nodes()
    world = RandomHistory(preempt=preempt, starvation_after=30.0, hyper_nodes=overlapping)
    for gpus in (4, 2, 2, 4, 4, 2, 1, 3):
        world.add_node(gpus)
    for name, *arguments in history:
        getattr(world, name)(*arguments)
        world.decide()
        world.check_overlapping_domains()
        world.check_rests()
    world.show_nodes()
    calm(world, 10)
    world.check_overlapping_domains()
    world.check_nothing_was_missed()


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(OVERLAPS, min_size=5, max_size=50), st.booleans())
def test_members_of_a_gang_share_one_of_several_overlapping_hyper_nodes(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    members_share_a_hyper_node(history, preempt=preempt)


@pytest.mark.long
@settings(max_examples=2000)
@given(st.lists(OVERLAPS, min_size=5, max_size=50), st.booleans())
def test_members_share_a_hyper_node_in_thousands_of_histories(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    members_share_a_hyper_node(history, preempt=preempt)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(LEVELS, min_size=5, max_size=50), st.booleans())
@example(STARVES_BEHIND_ANOTHER, False)
def test_members_of_a_gang_with_a_required_level_share_one_domain(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    members_share_their_domain(history, preempt=preempt)


@pytest.mark.long
@settings(max_examples=2000)
@given(st.lists(LEVELS, min_size=5, max_size=50), st.booleans())
def test_members_share_one_domain_in_thousands_of_histories(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    members_share_their_domain(history, preempt=preempt)


@pytest.mark.slow
@settings(max_examples=80)
@given(HISTORIES, st.booleans())
@example(REFUSED_WHILE_A_SIBLING_IS_BOUND, True)
@example(IN_FLIGHT_PAST_THE_RELEASE, False)
def test_no_gang_stays_half_bound_for_ten_seconds_after_the_trouble(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    no_half_gang_remains(history, preempt=preempt)


@pytest.mark.slow
@settings(max_examples=80)
@given(HISTORIES)
def test_a_gang_that_was_whole_gets_the_room_of_dead_members_back(
    history: list[tuple[Any, ...]],
) -> None:
    rooms_come_back(history)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(WAITS, min_size=5, max_size=50), st.booleans())
@example(BELOW_ITS_RUNNING_MEMBERS, True)
def test_a_gang_with_pending_members_has_a_reason_and_will_be_woken(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    waiting_gangs_can_be_woken(history, preempt=preempt)


@pytest.mark.long
@settings(max_examples=2000)
@given(st.lists(WAITS, min_size=5, max_size=50), st.booleans())
def test_waiting_gangs_can_be_woken_in_thousands_of_histories(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    waiting_gangs_can_be_woken(history, preempt=preempt)


@pytest.mark.long
@settings(max_examples=2000)
@given(HISTORIES, st.booleans())
def test_no_gang_stays_half_bound_in_thousands_of_histories(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    no_half_gang_remains(history, preempt=preempt)


@pytest.mark.long
@settings(max_examples=2000)
@given(HISTORIES)
def test_gangs_get_the_room_of_dead_members_back_in_thousands_of_histories(
    history: list[tuple[Any, ...]],
) -> None:
    rooms_come_back(history)
