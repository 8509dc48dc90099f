"""Work of the server between requests: compaction, disk reserve, backups, expired events."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects.meta import timestamp
from kubekit.request_errors import Conflict, NotFound, ServerError
from kubekit.telemetry.unexpected_errors import RepeatedLine
from localkube.apiserver import codec
from localkube.apiserver.http.requests import Call
from localkube.apiserver.kinds.namespaces_nodes_events import EVENTS, EVENTS_KEPT
from localkube.apiserver.store.backups import BACKUP_EVERY

if TYPE_CHECKING:
    from collections.abc import Callable

    from localkube.apiserver.store.collection import Change
    from localkube.apiserver.store.database import OddRow
    from localkube.apiserver.store.store import Store
    from localkube.apiserver.verbs import Verbs


log = logging.getLogger(__name__)
_round_failed = RepeatedLine(log, logging.WARNING, every=60.0)
COMPACT_EVERY = 300.0
_FIRST_BACKUP = 60.0
_LOOK = 1.0
"""Seconds between two looks at the disk."""
_MAX_EVENTS = 20


class Housekeeping:
    """The housekeeping of one server."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._store = verbs.store
        self._expiry = EventExpiry(verbs.store, verbs.clock)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for work in (self._compact, self._back_up, self._expiry.run, self._report_damage):
                group.create_task(work())

    async def _compact(self) -> None:
        """Forget history older than five to ten minutes; on a full disk, all of it."""
        old, due = self._store.revision, time.monotonic() + COMPACT_EVERY
        while True:
            try:
                await self._store.take_reserve()
                if not self._store.has_room():
                    # Superseded rows make room for further changes within the reserve.
                    await self._store.compact(self._store.revision)
                elif time.monotonic() > due:
                    await self._store.compact(old)
                    old, due = self._store.revision, time.monotonic() + COMPACT_EVERY
            except MusterError as error:
                _round_failed.log("%s", error)  # the next round tries again
            await asyncio.sleep(_LOOK)

    async def _back_up(self) -> None:
        saved = 0
        await asyncio.sleep(_FIRST_BACKUP)
        while True:
            if self._store.revision > saved and self._store.has_room():
                try:
                    revision = self._store.revision
                    await self._store.back_up()
                    saved = revision
                except (MusterError, OSError) as error:
                    log.warning("%s", error)
            await asyncio.sleep(BACKUP_EVERY)

    async def _report_damage(self) -> None:
        """An event about each object that is missing because its row is damaged."""
        for row in self._store.odd_rows[:_MAX_EVENTS]:
            log.warning("a damaged row was set aside: %s, revision %d", row.key, row.revision)
            try:
                event = _damage_event(row, timestamp(self._verbs.clock()))
                await self._verbs.create(Call.internal(EVENTS, "create", event))
            except MusterError as error:
                log.warning("%s", error)


def _damage_event(row: OddRow, now: str) -> dict[str, object]:
    return {
        "metadata": {"generateName": "damaged-object-", "namespace": "default"},
        # The namespace of the object may be missing too.
        "involvedObject": {"kind": "Namespace", "name": "default"},
        "type": "Warning",
        "reason": "DamagedObject",
        "message": f"The stored object {row.key} is damaged (revision {row.revision}) and was set"
        " aside; `arena check` says what is damaged.",
        "source": {"component": "apiserver"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


# -- the end of events -----------------------------------------------------------------------------


_EVERY = 15.0
_BATCH = 100
"""Events per step: other requests are answered between two steps."""
_PAUSE = 0.02
_TIMES = ("lastTimestamp", "series.lastObservedTime", "eventTime", "metadata.creationTimestamp")


class EventExpiry:
    """Deletes the expired events of one store.

    A recorder that sees an event again writes it again (`count`, `series`), which begins the hour
    anew. The time of a write is the server's own, so a client cannot keep an event forever. Only
    events of an earlier run are read for the time when they were last seen.
    """

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
        limit = self._timer() - EVENTS_KEPT
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
        with contextlib.suppress(NotFound, Conflict):  # deleted or written in between
            await self._store.delete(key, encode, entry.revision)


def _age(value: bytes, now: datetime) -> float:
    """Seconds since an event was last seen; a time in the future counts as now."""
    event = codec.decode(value)
    times = []
    for path in _TIMES:
        with contextlib.suppress(ValueError):  # no time, or none that can be read
            times.append(datetime.fromisoformat(codec.text(codec.at(event, path))))
    return max((now - max(times)).total_seconds(), 0.0) if times else EVENTS_KEPT
