"""The times of a cron schedule."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from localkube import cron_schedule

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday


def times(schedule: str, count: int, after: datetime = NOON, zone: str = "") -> list[str]:
    parsed, found = cron_schedule.parse(schedule, cron_schedule.time_zone(zone)), []
    for _ in range(count):
        next_time = parsed.next_after(after)
        assert next_time is not None
        after = next_time
        found.append(f"{after.astimezone(UTC):%m-%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("* * * * *", ["03-04 12:01", "03-04 12:02"]),
        ("*/15 * * * *", ["03-04 12:15", "03-04 12:30"]),
        ("5/20 8-9,14 * * *", ["03-04 14:05", "03-04 14:25"]),
        ("0 0 31 * ?", ["03-31 00:00", "05-31 00:00"]),
        ("0 0 * feb-MAR mon", ["03-09 00:00", "03-16 00:00"]),
        ("0 0 13 * FRI", ["03-06 00:00", "03-13 00:00", "03-20 00:00"]),
        ("0 0 */2 * 1", ["03-05 00:00", "03-07 00:00"]),
        ("0 0 * * 1-5/2", ["03-06 00:00", "03-09 00:00"]),
        ("@yearly", ["01-01 00:00"]),
        ("@hourly", ["03-04 13:00"]),
        ("@weekly", ["03-08 00:00"]),
        ("@every 1h30m", ["03-04 13:30", "03-04 15:00"]),
        ("@every 90s", ["03-04 12:01", "03-04 12:03"]),
    ],
)
def test_times(schedule: str, expected: list[str]) -> None:
    assert times(schedule, len(expected)) == expected


def test_an_hour_that_the_clock_skips_has_no_time_and_a_repeated_one_two() -> None:
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)

    assert times("30 2 * * *", 2, spring, "Europe/Berlin") == ["03-30 00:30", "03-31 00:30"]
    assert times("30 2 * * *", 3, autumn, "Europe/Berlin") == [
        "10-25 00:30",
        "10-25 01:30",
        "10-26 01:30",
    ]


def test_a_day_that_never_comes_has_no_time() -> None:
    assert cron_schedule.parse("0 0 31 2 *").next_after(NOON) is None


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("x * * * *", "failed to parse int from x"),
        ("@often", "unrecognized descriptor: @often"),
        ("@every soon", "failed to parse duration @every soon"),
        ("@every 3000000h", "failed to parse duration @every 3000000h"),
        ("@every 99999999999999h", "failed to parse duration @every 99999999999999h"),
    ],
)
def test_a_text_that_is_not_a_schedule(schedule: str, words: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(words)):
        cron_schedule.parse(schedule)


field = st.one_of(st.just("*"), st.integers(1, 3).map(str), st.sampled_from(["*/2", "1-3", "?"]))


@given(
    schedule=st.tuples(field, field, field, field, field).map(" ".join),
    start=st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York"]),
)
def test_the_next_time_is_the_first_minute_that_matches(
    schedule: str, start: datetime, zone: str
) -> None:
    start = start.replace(tzinfo=UTC)
    parsed = cron_schedule.parse(schedule, ZoneInfo(zone))
    found = parsed.next_after(start)
    assert found is not None
    assert found > start
    assert parsed.next_after(found - timedelta(seconds=1)) == found
    minute = start.replace(second=0, microsecond=0) + timedelta(minutes=1)
    # No earlier minute of the two days before is a time of the schedule.
    minute = max(minute, found - timedelta(days=2))
    while minute < found:
        assert parsed.next_after(minute - timedelta(minutes=1)) != minute
        minute += timedelta(minutes=7)
