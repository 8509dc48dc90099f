"""Keys waiting to be reconciled: de-duplicated, one worker per key, delayed, backed off.

Filled by informer listeners and timers, emptied by `control/loop.py`. It promises:

- a key is handed to one worker at a time, however often it is added;
- a key added while it is being worked on is worked on once more afterwards, so no change is missed;
- a key has at most one pending delay, the earliest asked for. Whoever reconciles must therefore say
  each time when to look again: an earlier visit replaces a later one;
- a key that keeps failing comes back ever more slowly, and never slows another key down;
- after `shutdown` nothing more is handed out, and what is being worked on can still be finished.

Time is the event loop's, so tests run on virtual time. Not safe for use from other threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

from muster.kube.retry import Backoff

K = TypeVar("K", bound=Hashable)

_FRESH = 1.0
"""Seconds after which a failed key is tried again when it changed during the failed attempt."""


class WorkQueue(Generic[K]):
    """The keys that some reconcile function has to look at."""

    def __init__(self, name: str = "", *, backoff: Backoff | None = None) -> None:
        self.name = name
        self._backoff = backoff or Backoff()
        self._ready: asyncio.Queue[K | None] = asyncio.Queue()
        self._waiting: set[K] = set()  # in _ready
        self._working: dict[K, float] = {}  # and since when; the oldest first
        self._changed: set[K] = set()  # added while being worked on
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many keys could be worked on now."""
        return len(self._waiting)

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._delayed)

    @property
    def longest(self) -> float:
        """For how many seconds the oldest attempt that has not ended has been going on."""
        started = next(iter(self._working.values()), None)
        return 0.0 if started is None else asyncio.get_running_loop().time() - started

    def add(self, key: K) -> None:
        """Have the key looked at, as soon as a worker is free."""
        if self._closed or key in self._waiting:
            return
        if key in self._working:
            self._changed.add(key)
            return
        self._waiting.add(key)
        self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Have the key looked at in so many seconds, unless it is due sooner already."""
        if seconds <= 0:
            self.add(key)
            return
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        pending = self._delayed.get(key)
        if pending is not None:
            if pending.when() <= loop.time() + seconds:
                return
            pending.cancel()
        self._delayed[key] = loop.call_later(seconds, self._due, key)

    def __aiter__(self) -> WorkQueue[K]:
        return self

    async def __anext__(self) -> K:
        """The next key, which is then the caller's until `done` or `retry`."""
        key = await self._ready.get()
        if self._closed or key is None:
            self._ready.put_nowait(None)  # pass the news on to the next worker
            raise StopAsyncIteration
        self._waiting.discard(key)
        self._working[key] = asyncio.get_running_loop().time()
        return key

    def done(self, key: K, again: float | None = None) -> None:
        """The key was worked on with success; look again in so many seconds, if given."""
        self._failures.pop(key, None)
        changed = self._release(key)
        if changed:
            self.add(key)
        if again is not None:
            self.add_after(key, again)

    def retry(self, key: K, at_least: float = 0.0) -> float:
        """The key failed: look again after its backoff. Answers the seconds until then."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        delay = max(at_least, self._backoff.delay(failures))
        if self._release(key):
            # New facts: sooner than the backoff, yet not at once, since the failed attempt's own
            # writes come back as such facts and would make a loop without any pause.
            delay = max(at_least, min(delay, _FRESH))
        self.add_after(key, delay)
        return delay

    def shutdown(self) -> None:
        """Hand out no more keys, take no more in."""
        self._closed = True
        for timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        self._waiting.clear()
        self._changed.clear()
        self._ready.put_nowait(None)

    def _due(self, key: K) -> None:
        del self._delayed[key]
        self.add(key)

    def _release(self, key: K) -> bool:
        """Give the key back; whether it was added meanwhile."""
        self._working.pop(key, None)
        changed = key in self._changed
        self._changed.discard(key)
        return changed
