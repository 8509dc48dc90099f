"""Events on jobs, told behind the work's back.

`act` says what happened and goes on; the events are written by a few calls at a time, and in a rush
only when nobody waits for pods any more, so that pods come before the news of them. What is said of
a job again and again is one event with a count, written ever more seldom. Nobody's work depends on
an event: one that cannot be written is only logged. What is left when the operator stops is written
before it ends, if that is quickly done.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.api.kinds import EVENTS
from muster.api.meta import key_of, timestamp
from muster.errors import AlreadyExists, MusterError, NotFound
from muster.operator import measure
from muster.operator.pods import owner

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.jobs.job import Job
    from muster.kube.client import Client
    from muster.operator.actions import Emit

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
class _News:
    """One event, and when it may be written; a repetition while it waits only counts."""

    body: Raw
    told: float
    waiting: bool = True
    writes: int = 0
    again: float = 0.0


class Teller:
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
        self._untold: asyncio.Queue[_News] = asyncio.Queue(_MOST)
        self._known: dict[tuple[str, str, str], _News] = {}

    def tell(self, job: Job, event: Emit) -> None:
        """Have an event written on this job, soon."""
        measure.told(job, event.reason)
        now, at = asyncio.get_running_loop().time(), timestamp(self._clock())
        which = (job.uid, event.reason, event.message)
        news = self._known.pop(which, None)
        if news is None:
            news = _News(_body(job, event, at), now)
            self._queue(news)
        else:
            news.body = {**news.body, "count": news.body["count"] + 1, "lastTimestamp": at}
            if not news.waiting and now >= news.again:
                news.told = now
                self._queue(news)
        self._known[which] = news
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _queue(self, news: _News) -> None:
        try:
            self._untold.put_nowait(news)
        except asyncio.QueueFull:
            log.warning("%s: event %s dropped", _about(news.body), news.body["reason"])
            news.waiting = False
        else:
            news.waiting = True

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
            news = await self._untold.get()
            try:
                await self._calm(news)
                await self._write(news)
            except asyncio.CancelledError:
                if not self._untold.full():
                    self._untold.put_nowait(news)
                raise

    async def _calm(self, news: _News) -> None:
        """Once nobody has work, or these news have waited long enough."""
        clock = asyncio.get_running_loop().time
        # A queue that has become empty tells nobody.
        while self._busy() and clock() < news.told + _PATIENCE:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)

    async def _part(self) -> None:
        try:
            async with asyncio.timeout(_PARTING):
                while not self._untold.empty():
                    await self._write(self._untold.get_nowait())
        except TimeoutError:
            log.warning("%d events were not written", self._untold.qsize())

    async def _write(self, news: _News) -> None:
        news.waiting = False
        try:
            await self._send(news)
        except AlreadyExists:
            pass  # It was written when we were interrupted.
        except MusterError as error:
            log.warning(
                "%s: event %s not written: %s", _about(news.body), news.body["reason"], error
            )
        news.writes += 1
        pause = min(2.0**news.writes, _SELDOM)
        news.again = asyncio.get_running_loop().time() + pause

    async def _send(self, news: _News) -> None:
        if news.writes:
            change = {field: news.body[field] for field in ("count", "lastTimestamp")}
            try:
                await self._client.patch(EVENTS, key_of(news.body), change)
            except NotFound:
                pass  # Events do not live long; this one begins anew.
            else:
                return
        await self._client.create(EVENTS, news.body)


def _about(body: Raw) -> str:
    about = body["involvedObject"]
    return f"{about['kind']} {about['namespace']}/{about['name']}"


def _body(job: Job, event: Emit, at: str) -> Raw:
    reference = {k: v for k, v in owner(job).items() if k in ("apiVersion", "kind", "name")}
    component = job.shape.operator
    return {
        "metadata": {"name": f"{job.name}.{secrets.token_hex(8)}", "namespace": job.namespace},
        "involvedObject": {**reference, "namespace": job.namespace, "uid": job.uid},
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:1024],
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
