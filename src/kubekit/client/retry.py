"""When to send a request again. No I/O; the clock is an argument.

429 means that the server did not act, so any request may be sent again. After other failures only
reads are retried, and only if the server says when.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from kubekit.client.error_response import retry_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.request import Request, Response

MAX_ATTEMPTS = 6
LONGEST_WAIT = 30.0


def pause_before_retry(request: Request, response: Response, attempt: int) -> float | None:
    """Seconds to wait before the next attempt; None to give up. `attempt` counts from 1."""
    if attempt >= MAX_ATTEMPTS:
        return None
    wait = retry_after(response)
    if response.status == 429:
        wait = min(2.0 ** (attempt - 1), 8.0) if wait is None else wait
    elif not (response.status in (500, 502, 503, 504) and request.method == "GET"):
        return None
    return None if wait is None or wait > LONGEST_WAIT else wait


class Backoff(NamedTuple):
    """The wait after failures in a row: it doubles, up to a cap, with jitter."""

    first: float = 0.05
    cap: float = 60.0
    jitter: float = 0.5
    random: Callable[[], float] = random.random

    def delay(self, failures: int) -> float:
        """Seconds to wait after that many failures (1 or more); jitter only shortens it."""
        longest = min(self.cap, self.first * 2.0 ** min(failures - 1, 60))
        return longest * (1.0 - self.jitter * self.random())


class Throttle:
    """Delays every request of a client while the server has asked for a pause.

    Without it, each of the requests in flight would run into the same overload by itself. Jitter
    keeps them from returning in one burst.
    """

    def __init__(self) -> None:
        self._until = 0.0

    def pause(self, now: float, seconds: float) -> None:
        self._until = max(self._until, now + seconds)

    def wait(self, now: float) -> float:
        """Seconds that a request must wait now; usually 0."""
        remaining = self._until - now
        return remaining * (1.0 + 0.25 * random.random()) if remaining > 0 else 0.0
