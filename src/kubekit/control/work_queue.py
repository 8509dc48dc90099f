"""Keys waiting to be reconciled: de-duplicated, one worker per key, delayed, backed off.

Promises:

- A key is handed to one worker at a time, however often it is added.
- A key added while a worker has it is handed out once more afterwards, so no change is missed.
- A key has at most one pending delay, the earliest requested. A reconcile function must therefore
  say every time when it wants to be called again.
- A key that keeps failing comes back at growing intervals, and never slows another key down.
- After `shutdown` no key is handed out; attempts under way can still finish.

Time is the event loop's, so tests run on virtual time. Not safe for use from other threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

from kubekit.client.retry import Backoff

K = TypeVar("K", bound=Hashable)

_CHANGED_RETRY = 1.0
"""Seconds until a failed key is retried if it changed during the failed attempt."""


class WorkQueue(Generic[K]):
    """The keys of one reconcile loop."""

    def __init__(self, name: str = "", *, backoff: Backoff | None = None) -> None:
        self.name = name
        self._backoff = backoff or Backoff()
        self._ready: asyncio.Queue[K | None] = asyncio.Queue()
        self._waiting: set[K] = set()  # in _ready
        self._working: dict[K, float] = {}  # the start of each attempt; the oldest first
        self._changed: set[K] = set()  # added while a worker has them
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._closed = False

    def __len__(self) -> int:
        """Number of keys ready for a worker."""
        return len(self._waiting)

    @property
    def delayed(self) -> int:
        """Number of keys that wait for a timer."""
        return len(self._delayed)

    @property
    def longest(self) -> float:
        """Seconds since the oldest unfinished attempt began."""
        started = next(iter(self._working.values()), None)
        return 0.0 if started is None else asyncio.get_running_loop().time() - started

    def add(self, key: K) -> None:
        """Reconcile the key as soon as a worker is free."""
        if self._closed or key in self._waiting:
            return
        if key in self._working:
            self._changed.add(key)
            return
        self._waiting.add(key)
        self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Reconcile the key after `seconds`, unless it is due sooner already."""
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
        """The next key; it belongs to the caller until `done` or `retry`."""
        key = await self._ready.get()
        if self._closed or key is None:
            self._ready.put_nowait(None)  # the next worker must end too
            raise StopAsyncIteration
        self._waiting.discard(key)
        self._working[key] = asyncio.get_running_loop().time()
        return key

    def done(self, key: K, again: float | None = None) -> None:
        """The attempt is over and its failures are forgotten.

        The next attempt is in `again` seconds, if given.
        """
        self._failures.pop(key, None)
        changed = self._release(key)
        if changed:
            self.add(key)
        if again is not None:
            self.add_after(key, again)

    def retry(self, key: K, at_least: float = 0.0) -> float:
        """The attempt failed: retry after the key's backoff. Returns the seconds until then."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        delay = max(at_least, self._backoff.delay(failures))
        if self._release(key):
            # The key changed, so retry before the backoff ends. Not at once: the failed attempt's
            # own writes come back as changes too, and would make a loop without a pause.
            delay = max(at_least, min(delay, _CHANGED_RETRY))
        self.add_after(key, delay)
        return delay

    def shutdown(self) -> None:
        """Hand out no more keys and accept none."""
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
        """Take the key back; returns whether it was added in the meantime."""
        self._working.pop(key, None)
        changed = key in self._changed
        self._changed.discard(key)
        return changed
