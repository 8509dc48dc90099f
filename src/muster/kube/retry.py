"""When to ask again: how a busy server's wish is respected. No I/O; the clock is an argument.

Called by both clients with every answer of 400 and above; watches and work queues take their
`Backoff` from here. Rules: 429 means the server did not act, so any request may be sent again;
other failures are retried only for reads, and only if the server says when. A refusal of eviction
is a decision about the pod, not about load, and is not retried.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from muster.kube.error_response import retry_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.kube.request import Request, Response

MAX_ATTEMPTS = 6
LONGEST_WAIT = 30.0


def pause_before_retry(request: Request, response: Response, attempt: int) -> float | None:
    """Seconds to wait before sending it again; None to give up. `attempt` counts from 1."""
    if attempt >= MAX_ATTEMPTS:
        return None
    wait = retry_after(response)
    if response.status == 429 and not request.path.endswith("/eviction"):
        wait = min(2.0 ** (attempt - 1), 8.0) if wait is None else wait
    elif not (response.status in (500, 502, 503, 504) and request.method == "GET"):
        return None
    if wait is None or wait > LONGEST_WAIT:
        return None
    return wait


class Backoff(NamedTuple):
    """How long to wait after `n` failures in a row: doubling, capped, with jitter."""

    first: float = 0.05
    cap: float = 60.0
    jitter: float = 0.5
    random: Callable[[], float] = random.random

    def delay(self, failures: int) -> float:
        """Seconds to wait after that many failures (1 or more); jitter only ever shortens."""
        whole = min(self.cap, self.first * 2.0 ** min(failures - 1, 60))
        return whole * (1.0 - self.jitter * self.random())


class Throttle:
    """Holds back every request of one client while the server has asked for a pause.

    Without it 64 requests in flight would each learn about the same overload by themselves. The
    jitter keeps them from coming back in one burst.
    """

    def __init__(self, random: Callable[[], float] = random.random) -> None:
        self._until = 0.0
        self._random = random

    def pause(self, now: float, seconds: float) -> None:
        self._until = max(self._until, now + seconds)

    def wait(self, now: float) -> float:
        """How long a request that wants to go now must wait; 0 in ordinary times."""
        left = self._until - now
        return left * (1.0 + 0.25 * self._random()) if left > 0 else 0.0
