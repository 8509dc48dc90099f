"""Events expire one hour after their last write, as in Kubernetes.

A recorder that sees an event again writes it again (`count`, `series`), which begins the hour anew.
The time of a write is the server's own, so a client cannot keep an event for ever. Only events of
an earlier run are read for the time when they were last seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.errors import Conflict, NotFound, ServerError
from localkube.apiserver import codec
from localkube.apiserver.kinds.cluster.event import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from localkube.apiserver.store.changes import Change
    from localkube.apiserver.store.store import Store

log = logging.getLogger(__name__)

TTL = 3600.0
_EVERY = 15.0
_BATCH = 100
"""Events per step: other requests are answered between two steps."""
_PAUSE = 0.02
_TIMES = ("lastTimestamp", "series.lastObservedTime", "eventTime", "metadata.creationTimestamp")


class EventExpiry:
    """Deletes the expired events of one store."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._timer = timer
        # When each event was last written; the oldest first, since a write moves a key to the end.
        self._written: dict[str, float] = {}
        store.subscribe(self._changed, EVENTS.collection)
        self._earlier = list(self._written)  # written in an earlier run
        self._written.clear()

    def _changed(self, change: Change) -> None:
        key = change.entry.key
        self._written.pop(key, None)
        if not change.deleted:
            self._written[key] = self._timer()

    async def run(self) -> None:
        """Delete events as they expire, until cancelled."""
        await self.read_earlier()
        while True:
            try:
                more = await self.expire()
            except ServerError as error:
                log.warning("events cannot be deleted: %s", error)
                more = False
            await asyncio.sleep(_PAUSE if more else _EVERY)

    async def read_earlier(self) -> None:
        """Find when the events of an earlier run were last seen."""
        last_seen: dict[str, float] = {}
        for start in range(0, len(self._earlier), _BATCH):
            now, wall = self._timer(), self._clock()
            for key in self._earlier[start : start + _BATCH]:
                entry = self._store.get(key)
                if entry is not None and key not in self._written:
                    last_seen[key] = now - _age(entry.value, wall)
            await asyncio.sleep(0)
        self._earlier = []
        oldest_first = dict(sorted(last_seen.items(), key=lambda item: item[1]))
        self._written = oldest_first | self._written

    async def expire(self) -> bool:
        """Delete the next expired events; whether there may be more."""
        limit = self._timer() - TTL
        expired = itertools.takewhile(lambda item: item[1] <= limit, self._written.items())
        keys = [key for key, _ in itertools.islice(expired, _BATCH)]
        # Together, so that the store writes them in one commit.
        await asyncio.gather(*map(self._delete, keys))
        return len(keys) == _BATCH

    async def _delete(self, key: str) -> None:
        entry = self._store.get(key)
        if entry is None:
            self._written.pop(key, None)
            return
        encode = codec.encoder(codec.decode(entry.value), EVENTS.stored_api_version)
        with contextlib.suppress(NotFound, Conflict):  # deleted or written meanwhile
            await self._store.delete(key, encode, entry.revision)


def _age(value: bytes, now: datetime) -> float:
    """Seconds since an event was last seen; a time in the future counts as now."""
    event = codec.decode(value)
    times = []
    for path in _TIMES:
        with contextlib.suppress(ValueError):  # no time, or none that can be read
            times.append(datetime.fromisoformat(codec.text(codec.at(event, path))))
    return max((now - max(times)).total_seconds(), 0.0) if times else TTL
