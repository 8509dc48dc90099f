"""`decide` changes nothing, and applying what it returns gives what the loop does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from muster.contract.gang import GangKey
from muster.scheduler.decisions.decision import Decision, apply
from muster.scheduler.decisions.gang_decision import decide, known
from muster.scheduler.state import State
from tests.muster.scheduler.random_history import RandomHistory, hyper_nodes
from tests.muster.scheduler.state_copies import copy_of, difference, settled
from tests.muster.scheduler.test_invariants import (
    BELOW_ITS_RUNNING_MEMBERS,
    IN_FLIGHT_PAST_THE_RELEASE,
    LEVELS,
    STARVES_BEHIND_ANOTHER,
    SURPLUS_LANDS_BEFORE_THE_MINIMUM,
    WAITS,
    calm,
)

HISTORIES = st.lists(st.one_of(WAITS, LEVELS), min_size=20, max_size=60)


def consider_on_a_copy(state: State, key: GangKey, now: float) -> Decision:
    """Decide, and compare the state with a copy made before: after the decision, and applied."""
    copy = copy_of(settled(state))

    decision = decide(known(state, now), key)

    assert difference(settled(state), settled(copy)) == "", "changed by a decision"
    apply(copy, decision)
    apply(state, decision)
    assert difference(settled(state), settled(copy)) == "", "another state on a copy"
    return decision


def decisions_are_pure(history: list[tuple[Any, ...]], *, preempt: bool) -> None:
    world = RandomHistory(
        preempt=preempt,
        starvation_after=30.0,
        hyper_nodes=hyper_nodes(),
        consider=consider_on_a_copy,
    )
    for rack, gpus in ((1, 4), (1, 2), (2, 2), (0, 4)):
        world.add_node(gpus, rack)
    for name, *arguments in history:
        getattr(world, name)(*arguments)
        world.decide()
    world.restore_groups()
    calm(world, 2)


@pytest.mark.slow
@settings(max_examples=100)
@given(HISTORIES, st.booleans())
@example(BELOW_ITS_RUNNING_MEMBERS, True)
@example(IN_FLIGHT_PAST_THE_RELEASE, False)
@example(STARVES_BEHIND_ANOTHER, False)
@example(SURPLUS_LANDS_BEFORE_THE_MINIMUM, False)
def test_a_decision_changes_nothing_until_it_is_applied(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    decisions_are_pure(history, preempt=preempt)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=2000)
@given(HISTORIES, st.booleans())
def test_decisions_change_nothing_in_thousands_of_histories(
    history: list[tuple[Any, ...]], preempt: bool
) -> None:
    decisions_are_pure(history, preempt=preempt)
