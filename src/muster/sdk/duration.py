"""Durations in arguments: `2h`, `1h30m`, `10m`, seconds, or a timedelta."""

from __future__ import annotations

import math
from datetime import timedelta

from kubekit.errors import UsageError
from muster.jobs.build.flag_values import seconds as seconds_of_text

Duration = str | float | timedelta
"""`"2h"`, `90` (seconds) or `timedelta(minutes=5)`."""


def seconds_of(name: str, value: Duration | None) -> float:
    """The duration in seconds; without one, infinity."""
    if value is None:
        return math.inf
    if isinstance(value, timedelta):
        value = value.total_seconds()
    hint = f'Write {name}="2h", "10m" or seconds.'
    if isinstance(value, str):
        try:
            return float(seconds_of_text(name, value))
        except UsageError as error:
            raise UsageError(str(error), hint=hint) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name}={value!r} is no duration", hint=hint)
    return float(value)
