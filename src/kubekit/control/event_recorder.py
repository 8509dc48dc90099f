"""The one writer of Kubernetes events.

`record` queues an event and returns: a controller's work never waits for its events, and an event
that cannot be written is only logged. While there is work to do (`busy`) an event waits for up to
`patience` seconds, so that pods are created before the events about them. `write` is for callers
that must know: it returns when the event is written, and raises if it cannot be.

The same event on the same object is one Event with a count, as kubectl shows it. The count is
written at growing intervals, from two seconds up to five minutes. When `run` is cancelled, it
writes the events still queued before it returns, if that takes no more than a few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects.events import EventSubject, EventText, event_manifest
from kubekit.objects.kinds import EVENTS
from kubekit.objects.meta import key_of, timestamp
from kubekit.request_errors import AlreadyExists, ApiError, NotFound
from kubekit.telemetry import unexpected_errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.objects.meta import Raw
    from kubekit.rights import MissingRight

log = logging.getLogger(__name__)

_WRITERS = 2
_MAX_QUEUED = 20_000
"""Events in memory while the API server takes none."""
_MAX_REMEMBERED = 4_000
"""Events that a repetition is counted on."""
_POLL = 0.1
_MAX_INTERVAL = 300.0
"""The longest time between two writes of an event that repeats."""
_FLUSH_SECONDS = 3.0
"""Seconds for the events still queued at the end."""


@dataclass
class _RecordedEvent:
    """One event; repetitions while it is queued only raise its count."""

    subject: EventSubject
    body: Raw
    queued_at: float
    queued: bool = False
    attempts: int = 0
    """Attempts to write it, failed ones too."""
    next_write: float = 0.0


class EventRecorder:
    """Writes events in the order they are recorded, a few at a time.

    `busy` says whether there is work that events should give way to, for up to `patience` seconds.
    """

    def __init__(
        self,
        client: Client,
        clock: Callable[[], datetime],
        busy: Callable[[], bool] = lambda: False,
        patience: float = 0.0,
    ) -> None:
        self._client, self._clock = client, clock
        self._busy, self._patience = busy, patience
        self._queue: asyncio.Queue[_RecordedEvent] = asyncio.Queue(_MAX_QUEUED)
        self._missing_right: MissingRight | None = None
        self._known: dict[tuple[EventSubject, EventText], _RecordedEvent] = {}

    def record(self, subject: EventSubject, text: EventText) -> None:
        """Queue an event on this object."""
        now = asyncio.get_running_loop().time()
        event = self._count(subject, text)
        if event.queued or now < event.next_write:
            return
        event.queued_at = now
        try:
            self._queue.put_nowait(event)
            event.queued = True
        except asyncio.QueueFull:
            log.warning("%s: event %s dropped", subject, text.reason)

    async def write(self, subject: EventSubject, text: EventText) -> None:
        """Write an event on this object now; raises the error of the API server."""
        event = self._count(subject, text)
        try:
            await self._send(event)
        except BaseException:
            if not event.attempts:  # Otherwise the caller's retry would count as a repetition.
                self._known.pop((subject, text), None)
            raise

    def _count(self, subject: EventSubject, text: EventText) -> _RecordedEvent:
        """The event, counted once more; the event that repeated longest ago is forgotten."""
        at = self._clock()
        # Popped and added again: the order of the dictionary is the order of the last repetition.
        event = self._known.pop((subject, text), None)
        if event is None:
            event = _RecordedEvent(subject, event_manifest(subject, text, at), 0.0)
        else:
            repeated = {"count": event.body["count"] + 1, "lastTimestamp": timestamp(at)}
            event.body = {**event.body, **repeated}
        self._known[subject, text] = event
        if len(self._known) > _MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        return event

    async def run(self) -> None:
        """Write queued events until cancelled, then the rest of the queue."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WRITERS):
                    group.create_task(self._write_queued())
        finally:
            await self._flush()

    async def _write_queued(self) -> None:
        while True:
            event = await self._queue.get()
            try:
                clock, until = asyncio.get_running_loop().time, event.queued_at + self._patience
                # A work queue does not tell when it becomes empty, so this polls.
                while self._busy() and clock() < until:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL)
                await self._try_to_send(event)
            except asyncio.CancelledError:
                if not self._queue.full():
                    self._queue.put_nowait(event)  # `_flush` writes it
                raise

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                while not self._queue.empty():
                    await self._try_to_send(self._queue.get_nowait())
        except TimeoutError:
            log.warning("%d events were not written", self._queue.qsize())

    async def _try_to_send(self, event: _RecordedEvent) -> None:
        event.queued = False
        with unexpected_errors.isolated("events", event.subject):
            try:
                await self._send(event)
                return
            except MusterError as error:
                if isinstance(error, ApiError) and error.namespace_is_terminating:
                    return  # nobody will read it
                self._log(event, error)
        self._schedule_next(event)

    def _log(self, event: _RecordedEvent, error: MusterError) -> None:
        """Log that an event is not written; a missing right concerns all events, so once."""
        missing = error.missing_right
        if missing and missing == self._missing_right:
            return
        self._missing_right = missing
        log.warning("%s: event %s not written: %s", event.subject, event.body["reason"], error)

    async def _send(self, event: _RecordedEvent) -> None:
        if not (event.attempts and await self._patch(event)):
            # It exists if an earlier attempt was interrupted after the server had written it.
            with suppress(AlreadyExists):
                await self._client.create(EVENTS, event.body)
        self._schedule_next(event)

    async def _patch(self, event: _RecordedEvent) -> bool:
        """Write the count of an event; False if the server no longer has it."""
        change = {field: event.body[field] for field in ("count", "lastTimestamp")}
        try:
            await self._client.patch(EVENTS, key_of(event.body), change)
        except NotFound:
            return False
        return True

    def _schedule_next(self, event: _RecordedEvent) -> None:
        event.attempts += 1
        interval = min(2.0 ** min(event.attempts, 10), _MAX_INTERVAL)
        event.next_write = asyncio.get_running_loop().time() + interval
