"""The phase of a gang: one module computes it, and a table lists the allowed moves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from muster import scheduler
from muster.scheduler import isolated_errors
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.phase import (
    Binding,
    Gathering,
    HalfBound,
    Leaving,
    Mending,
    Phase,
    Preempting,
    Unseen,
    Waiting,
    Whole,
)

SOURCES = sorted(Path(scheduler.__file__).parent.rglob("*.py"))


def test_a_phase_is_assigned_only_what_the_functions_of_its_module_return() -> None:
    assigned = re.compile(r"\.phase = (.*)")
    values = [value for path in SOURCES for value in assigned.findall(path.read_text())]

    assert values
    assert [value for value in values if not value.startswith(("phase.", "move("))] == []


def test_every_phase_has_a_row_in_the_table() -> None:
    assert set(phase.MOVES) == set(get_args(Phase))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Mending(), HalfBound()),
        (HalfBound(), Mending()),
        (Gathering(), Binding(Waiting())),
        (Unseen(), Binding(Waiting())),
        (Leaving(frozenset("x"), was_whole=True), Binding(Waiting())),
        (Whole(), Binding(Mending())),
        (Binding(Waiting()), Preempting(Waiting(), frozenset("x"))),
        (Waiting(), Mending()),
    ],
)
def test_a_move_that_is_not_in_the_table_is_an_error(before: Phase, after: Phase) -> None:
    with pytest.raises(AssertionError, match=f"from {type(before).__name__} to"):
        phase.move(before, after)


def test_in_production_a_wrong_move_is_logged_and_does_not_stop_the_scheduler(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(isolated_errors, "STRICT", False)

    assert phase.move(Waiting(), Mending()) == Mending()
    assert "from Waiting to Mending" in caplog.text


def test_a_failed_bind_sets_the_time_of_the_release_once() -> None:
    first = phase.half_bound_until(Binding(Waiting()), 5.0)

    assert first == Binding(HalfBound(release_at=5.0))
    assert phase.half_bound_until(first, 9.0) == first


def test_failed_deletions_are_remembered_until_the_pod_is_gone() -> None:
    waits = Preempting(Waiting(), frozenset({"a"}))
    failed = phase.deletion_failed(waits, "a", "a could not be deleted")

    assert failed != waits
    assert phase.deletion_failed(failed, "other", "not awaited") == failed
    assert phase.deletion_failed(failed, "a", "") == waits
