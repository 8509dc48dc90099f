"""Events about pods: what happened on this node, said to the API, never twice in a row.

The pod loop says; `run` writes. Nobody's work depends on an event, so a lost one is only logged.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

from muster.api.kinds import EVENTS
from muster.errors import MusterError
from muster.local.node.status import text

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.kube.client import Client
    from muster.local.node.spec import Pod

log = logging.getLogger(__name__)

_REMEMBERED = 4096


class Recorder:
    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._clock = clock
        self._waiting: asyncio.Queue[Raw] = asyncio.Queue(maxsize=1000)
        self._said: dict[tuple[str, ...], None] = {}

    def say(
        self, pod: Pod, reason: str, message: str, *, warning: bool = False, once: str = ""
    ) -> None:
        """Say it about a pod; the same thing about the same pod, or `once`, only one time."""
        self._say((once or pod.metadata.uid, reason, message), pod, reason, message, warning)

    def remark(self, pod: Pod, reason: str, message: str, *, warning: bool = False) -> None:
        """Say it about the first of a job's pods, and of none of the others, whatever the words."""
        owner = pod.metadata.controller
        key = (owner.uid if owner else pod.metadata.uid, reason)
        self._say(key, pod, reason, message, warning)

    def _say(
        self, said: tuple[str, ...], pod: Pod, reason: str, message: str, warning: bool
    ) -> None:
        if said in self._said or self._waiting.full():
            return
        self._said[said] = None
        if len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]
        self._waiting.put_nowait(self._body(pod, reason, message, warning=warning))

    async def run(self) -> None:
        while True:
            body = await self._waiting.get()
            try:
                await self._client.create(EVENTS, body)
            except MusterError as error:
                log.warning("event %s not written: %s", body["reason"], error)

    def _body(self, pod: Pod, reason: str, message: str, *, warning: bool) -> Raw:
        meta = pod.metadata
        now = text(self._clock())
        return {
            "metadata": {
                "name": f"{meta.name}.{secrets.token_hex(8)}",
                "namespace": meta.namespace,
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "muster-node", "host": pod.spec.node_name},
            "reportingComponent": "muster-node",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
