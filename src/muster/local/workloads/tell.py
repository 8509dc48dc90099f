"""Events on workloads, written behind the work's back.

Controllers say what happened and go on. Nobody's work depends on an event: one that cannot be
written is logged and forgotten.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.api.kinds import EVENTS
from muster.api.meta import timestamp
from muster.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.api.kinds import Kind
    from muster.api.meta import ObjectMeta, Raw
    from muster.kube.client import Client

log = logging.getLogger(__name__)

_MOST = 5_000


class News(NamedTuple):
    """What is worth an event."""

    reason: str
    message: str
    type: str = "Normal"


class Teller:
    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._clock = clock
        self._untold: asyncio.Queue[Raw] = asyncio.Queue(_MOST)

    def tell(self, component: str, kind: Kind[Any], meta: ObjectMeta, news: News) -> None:
        """Have an event written on this object, soon."""
        at = timestamp(self._clock())
        body = {
            "metadata": {
                "name": f"{meta.name}.{secrets.token_hex(8)}",
                "namespace": meta.namespace or "default",
            },
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
            },
            "type": news.type,
            "reason": news.reason,
            "message": news.message[:1024],
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        try:
            self._untold.put_nowait(body)
        except asyncio.QueueFull:
            log.warning("%s %s: event %s dropped", kind.kind, meta.key, news.reason)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            body = await self._untold.get()
            try:
                await self._client.create(EVENTS, body)
            except MusterError as error:
                name = body["involvedObject"]["name"]
                log.info("%s: event %s not written: %s", name, body["reason"], error)
