"""Ages, durations and amounts as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.jobs.view import units
from muster.jobs.view.units import age, duration

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (86400, "1d")],
)
def test_durations_have_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_years_come_after_365_days() -> None:
    assert duration(400 * 86400) == "1y"


def test_an_unknown_age_is_not_available() -> None:
    assert age(None) == "N/A"
    assert age(NOW - timedelta(minutes=3), NOW) == "3m"


@pytest.mark.parametrize(("milli", "text"), [(0, "0"), (250, "0.25"), (2000, "2"), (10500, "10.5")])
def test_thousandths_of_a_cpu_are_written_as_cpus(milli: int, text: str) -> None:
    assert units.cores(milli) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "; next try now"),
        (0.2, "; next try in 1 s"),
        (20, "; next try in 20 s"),
        (120, "; next try in 2 min"),
        (250, "; next try in 4 min 10 s"),
    ],
)
def test_the_next_try_is_shown_in_minutes_and_seconds(seconds: float, text: str) -> None:
    assert units.next_try(NOW + timedelta(seconds=seconds), NOW) == text


def test_an_unknown_next_try_is_not_mentioned() -> None:
    assert units.next_try(None, NOW) == ""
