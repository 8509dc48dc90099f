"""Events, told behind the work's back.

Controllers say what happened and go on; the events are written by a few calls at a time, and in a
rush only when nobody waits for work any more, so that pods come before the news of them. What is
said of an object again and again is one event with a count, written ever more seldom. Nobody's work
depends on an event: one that cannot be written is only logged. What is left at the end is written
before it, if that is quickly done.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.api.events import EventSubject, EventText, event_manifest
from muster.api.kinds import EVENTS
from muster.api.meta import key_of, timestamp
from muster.errors import AlreadyExists, MusterError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.kube.client import Client

log = logging.getLogger(__name__)

_AT_ONCE = 2
_MOST = 20_000
"""Events kept in memory for an API server that does not take them."""
_REMEMBERED = 4_000
"""Events of which a repetition is known as one."""
_PATIENCE = 30.0
"""Seconds for which news give way to work."""
_LOOK = 0.1
_SELDOM = 300.0
"""The longest time between two writes of an event that keeps being told."""
_PARTING = 3.0
"""Seconds for what is left at the end."""


@dataclass
class _RecordedEvent:
    """One event, and when it may be written; a repetition while it waits only counts."""

    subject: EventSubject
    body: Raw
    at: float
    waiting: bool = True
    writes: int = 0
    again: float = 0.0


class EventRecorder:
    """Writes events, in the order in which they were told but for the few under way at once.

    `busy` says whether there is work that news should give way to.
    """

    def __init__(
        self,
        client: Client,
        clock: Callable[[], datetime],
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._clock = clock
        self._busy = busy
        self._untold: asyncio.Queue[_RecordedEvent] = asyncio.Queue(_MOST)
        self._known: dict[tuple[EventSubject, EventText], _RecordedEvent] = {}

    def tell(self, subject: EventSubject, news: EventText) -> None:
        """Have an event written on this object, soon."""
        now, at = asyncio.get_running_loop().time(), self._clock()
        told = self._known.pop((subject, news), None)
        if told is None:
            told = _RecordedEvent(subject, event_manifest(subject, news, at), now)
            self._queue(told)
        else:
            last = {"count": told.body["count"] + 1, "lastTimestamp": timestamp(at)}
            told.body = {**told.body, **last}
            if not told.waiting and now >= told.again:
                told.at = now
                self._queue(told)
        self._known[subject, news] = told
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _queue(self, told: _RecordedEvent) -> None:
        try:
            self._untold.put_nowait(told)
        except asyncio.QueueFull:
            log.warning("%s: event %s dropped", told.subject, told.body["reason"])
            told.waiting = False
        else:
            told.waiting = True

    async def run(self) -> None:
        """Write until cancelled, then what is left."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_AT_ONCE):
                    group.create_task(self._write_all())
        finally:
            await self._part()

    async def _write_all(self) -> None:
        while True:
            told = await self._untold.get()
            try:
                await self._calm(told)
                await self._write(told)
            except asyncio.CancelledError:
                if not self._untold.full():
                    self._untold.put_nowait(told)
                raise

    async def _calm(self, told: _RecordedEvent) -> None:
        """Once nobody has work, or these news have waited long enough."""
        clock = asyncio.get_running_loop().time
        # A queue that has become empty tells nobody.
        while self._busy() and clock() < told.at + _PATIENCE:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)

    async def _part(self) -> None:
        try:
            async with asyncio.timeout(_PARTING):
                while not self._untold.empty():
                    await self._write(self._untold.get_nowait())
        except TimeoutError:
            log.warning("%d events were not written", self._untold.qsize())

    async def _write(self, told: _RecordedEvent) -> None:
        told.waiting = False
        try:
            await self._send(told)
        except AlreadyExists:
            pass  # It was written when we were interrupted.
        except MusterError as error:
            log.warning("%s: event %s not written: %s", told.subject, told.body["reason"], error)
        told.writes += 1
        pause = min(2.0**told.writes, _SELDOM)
        told.again = asyncio.get_running_loop().time() + pause

    async def _send(self, told: _RecordedEvent) -> None:
        if told.writes:
            change = {field: told.body[field] for field in ("count", "lastTimestamp")}
            try:
                await self._client.patch(EVENTS, key_of(told.body), change)
            except NotFound:
                pass  # Events do not live long; this one begins anew.
            else:
                return
        await self._client.create(EVENTS, told.body)
