"""When a service account token is due, by the machine's clock and by monotonic time.

The lifetime of a token is a matter of the machine's clock, which may be set and which goes on while
the machine sleeps. So a token is due by the clock or by monotonic time, whichever comes first, and
at once when the difference between the two changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

_MAX_AGE = 24 * 3600.0
_RENEW_AFTER = 0.8
MAX_DRIFT = 30.0
"""Seconds by which the two clocks may drift apart before a token counts as due."""


def renew_at(issued: datetime, expires: datetime) -> datetime:
    """When a token should be replaced."""
    lifetime = (expires - issued).total_seconds()
    return issued + timedelta(seconds=min(_RENEW_AFTER * lifetime, _MAX_AGE))


@dataclass(frozen=True)
class Renewal:
    """When a token is due, by both clocks."""

    at: datetime
    written: float
    """Monotonic time."""
    seconds: float
    """Monotonic seconds from `written` until it is due."""
    offset: float
    """The difference between the clocks when the token was written."""

    def left(self, now: Clocks) -> float:
        """Seconds until the token is due."""
        if abs(now.offset - self.offset) > MAX_DRIFT:
            return 0.0  # the clock was set: the token may be expired, or not valid yet
        by_clock = (self.at - now.wall).total_seconds()
        return min(by_clock, self.written + self.seconds - now.monotonic)


class Clocks(NamedTuple):
    """The machine's clock and monotonic time, read together."""

    wall: datetime
    monotonic: float

    @property
    def offset(self) -> float:
        return self.wall.timestamp() - self.monotonic

    def renewal(self, at: datetime) -> Renewal:
        """The renewal of a token that is written now."""
        seconds = (at - self.wall).total_seconds()
        return Renewal(at, self.monotonic, seconds, self.offset)
