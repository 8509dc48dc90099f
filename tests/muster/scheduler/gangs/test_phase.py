"""The phase of a gang: one module writes it, and a table lists the allowed moves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from muster import scheduler
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.phase import (
    Binding,
    GangRecord,
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


def test_only_one_module_assigns_the_phase() -> None:
    assigns = re.compile(r"\.phase\b(?:: \w+)? = ")
    writers = [path.name for path in SOURCES if assigns.search(path.read_text())]

    assert writers == ["phase.py"]


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
    record = GangRecord(before)

    with pytest.raises(AssertionError, match=f"from {type(before).__name__} to"):
        phase.move(record, after)


def test_in_production_a_wrong_move_is_logged_and_does_not_stop_the_scheduler(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(phase, "STRICT", False)
    record = GangRecord(Waiting())

    phase.move(record, Mending())

    assert record.phase == Mending()
    assert "from Waiting to Mending" in caplog.text


def test_a_failed_bind_sets_the_time_of_the_release_once() -> None:
    record = GangRecord(Binding(Waiting()))

    phase.half_bound_until(record, 5.0)
    phase.half_bound_until(record, 9.0)

    assert record.phase == Binding(HalfBound(release_at=5.0))


def test_failed_deletions_are_remembered_until_the_pod_is_gone() -> None:
    record = GangRecord(Preempting(Waiting(), frozenset({"a"})))

    assert phase.deletion_failed(record, "a", "a could not be deleted")
    assert not phase.deletion_failed(record, "other", "not awaited")
    assert phase.deletion_failed(record, "a", "")
    assert record.phase == Preempting(Waiting(), frozenset({"a"}))
