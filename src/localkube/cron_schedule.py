"""The schedule of a CronJob: five fields, a word such as `@daily`, or `@every 1h30m`. Pure.

The rules and the words of errors are those of Kubernetes, whose parser differs from other ones: `?`
is `*`, Sunday is 0 and never 7, and a day must match both day fields if one of them is `*`, else
one of the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)
_YEARS_TO_SEARCH = 5
_LONGEST = 2**63 / 1e9
"""Seconds of the longest duration in Go, which counts nanoseconds."""


class Schedule(Protocol):
    def next_after(self, time: datetime) -> datetime | None:
        """The first time after this one; None if there is none."""


def parse(text: str, zone: tzinfo = UTC) -> Schedule:
    """The schedule in a time zone; a ValueError in Kubernetes' words if there is none."""
    if text.startswith(_EVERY):
        return _Every(_duration(text))
    if text.startswith("@") and text not in _WORDS:
        raise ValueError(f"unrecognized descriptor: {text}")
    words = _WORDS.get(text, text).split()
    if len(words) != len(_BOUNDS):
        shown = f"[{' '.join(words)}]"
        raise ValueError(f"expected exactly {len(_BOUNDS)} fields, found {len(words)}: {shown}")
    minutes, hours, days, months, weekdays = map(_field, words, _BOUNDS)
    return _Calendar(minutes, hours, days, months, weekdays, zone)


def time_zone(name: str) -> tzinfo:
    """The time zone; a ValueError if it is unknown. No name means UTC."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


# -- fields --------------------------------------------------------------------------------------


class _Bounds(NamedTuple):
    least: int
    most: int
    names: Mapping[str, int] = {}


_BOUNDS = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)


class _Field(NamedTuple):
    values: frozenset[int]
    is_star: bool
    """Whether a part of it is `*` without a step."""


def _field(word: str, bounds: _Bounds) -> _Field:
    parts = [_part(part, bounds) for part in word.split(",") if part]
    return _Field(frozenset().union(*(p.values for p in parts)), any(p.is_star for p in parts))


def _part(part: str, bounds: _Bounds) -> _Field:
    """`*`, `5`, `1-5`, and each of them with `/2`."""
    span, *steps = part.split("/")
    low, *high = span.split("-")
    star = low in ("*", "?")
    if star:
        first, last = bounds.least, bounds.most
    else:
        first = last = _number(low, bounds.names)
        if len(high) > 1:
            raise ValueError(f"too many hyphens: {part}")
        last = _number(high[0], bounds.names) if high else first
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {part}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not high:
        last = bounds.most
    _check_range(part, range(first, last + 1, step or 1), (first, last, step), bounds)
    return _Field(frozenset(range(first, last + 1, step)), star and step == 1)


def _check_range(part: str, values: range, ends: tuple[int, int, int], bounds: _Bounds) -> None:
    first, last, step = ends
    if first < bounds.least:
        raise ValueError(f"beginning of range ({first}) below minimum ({bounds.least}): {part}")
    if last > bounds.most:
        raise ValueError(f"end of range ({last}) above maximum ({bounds.most}): {part}")
    if not values:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {part}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {part}")


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    try:
        number = int(text) if text.isascii() and "_" not in text and text.strip() == text else None
    except ValueError:
        number = None
    if number is None:
        reason = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise ValueError(f"failed to parse int from {text}: {reason}")
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number


def _duration(text: str) -> timedelta:
    words = text.removeprefix(_EVERY)
    parts = _DURATION.findall(words)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    complete = words and "".join(number + unit for number, unit in parts) == words
    if not complete or seconds > _LONGEST:
        raise ValueError(f'failed to parse duration {text}: time: invalid duration "{words}"')
    return timedelta(seconds=max(1, int(seconds)))


# -- times ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Every:
    delay: timedelta

    def next_after(self, time: datetime) -> datetime | None:
        try:
            return time.replace(microsecond=0) + self.delay
        except OverflowError:  # after the year 9999
            return None


@dataclass(frozen=True)
class _Calendar:
    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field
    zone: tzinfo

    def next_after(self, time: datetime) -> datetime | None:
        try:
            return self._next_after(time)
        except OverflowError:  # after the year 9999
            return None

    def _next_after(self, time: datetime) -> datetime | None:
        # In steps of real time: an hour that a change of the clock skips does not occur, and an
        # hour that it repeats occurs twice.
        moment = time.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
        last_year = moment.year + _YEARS_TO_SEARCH
        while moment.year <= last_year:
            local = moment.astimezone(self.zone)
            if local.month not in self.months.values or not self._matches_day(local):
                midnight = local.replace(hour=0, minute=0, fold=0, tzinfo=None) + _DAY
                moment = midnight.replace(tzinfo=self.zone).astimezone(UTC)
            elif local.hour not in self.hours.values:
                moment += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minutes.values:
                moment += _MINUTE
            else:
                return moment
        return None

    def _matches_day(self, local: datetime) -> bool:
        day = local.day in self.days.values
        weekday = local.isoweekday() % 7 in self.weekdays.values
        if self.days.is_star or self.weekdays.is_star:
            return day and weekday
        return day or weekday
