"""Events on jobs, told behind the work's back.

`act` says what happened and goes on; the events are written by a few calls at a time, so that in a
rush pods come before the news of them. Nobody's work depends on an event: one that cannot be
written is only logged. What is left when the operator stops is written before it ends, if that is
quickly done.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

from muster.api.kinds import EVENTS
from muster.errors import AlreadyExists, MusterError
from muster.operator import measure
from muster.operator.pods import owner
from muster.operator.status import stamp

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
_PARTING = 3.0
"""Seconds for what is left at the end."""


class Teller:
    """Writes events, in the order in which they were told but for the few under way at once."""

    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._clock = clock
        self._untold: asyncio.Queue[Raw] = asyncio.Queue(_MOST)

    def tell(self, job: Job, event: Emit) -> None:
        """Have an event written on this job, soon."""
        measure.told(job, event.reason)
        try:
            self._untold.put_nowait(_body(job, event, stamp(self._clock())))
        except asyncio.QueueFull:
            log.warning("%s %s: event %s dropped", job.kind, job.key, event.reason)

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
            body = await self._untold.get()
            try:
                await self._write(body)
            except asyncio.CancelledError:
                if not self._untold.full():
                    self._untold.put_nowait(body)
                raise

    async def _part(self) -> None:
        try:
            async with asyncio.timeout(_PARTING):
                while not self._untold.empty():
                    await self._write(self._untold.get_nowait())
        except TimeoutError:
            log.warning("%d events were not written", self._untold.qsize())

    async def _write(self, body: Raw) -> None:
        try:
            await self._client.create(EVENTS, body)
        except AlreadyExists:
            return  # It was written when we were interrupted.
        except MusterError as error:
            about = body["involvedObject"]
            what = f"{about['kind']} {about['namespace']}/{about['name']}"
            log.warning("%s: event %s not written: %s", what, body["reason"], error)


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
