"""Work of the server between requests: compaction, disk reserve, backups, expired events."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects.meta import timestamp
from kubekit.telemetry.log_bounds import RepeatedLine
from localkube.apiserver.event_expiry import EventExpiry
from localkube.apiserver.http.requests import Call
from localkube.apiserver.kinds.cluster.event import EVENTS
from localkube.apiserver.store.backups import BACKUP_EVERY

if TYPE_CHECKING:
    from localkube.apiserver.store.database import OddRow
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
            group.create_task(self._compact())
            group.create_task(self._back_up())
            group.create_task(self._expiry.run())
            group.create_task(self._report_damage())

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
    message = (
        f"The stored object {row.key} is damaged (revision {row.revision}) and was set aside;"
        " `arena check` says what is damaged."
    )
    return {
        "metadata": {"generateName": "damaged-object-", "namespace": "default"},
        # The namespace of the object may be missing too.
        "involvedObject": {"kind": "Namespace", "name": "default"},
        "type": "Warning",
        "reason": "DamagedObject",
        "message": message,
        "source": {"component": "apiserver"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
