"""Accepts Volcano's PodGroups, so that operators create the pods of their gangs.

Volcano gives a PodGroup the phase Inqueue when it accepts it, before there are pods. Until then
training-operator creates none. A PodGroup names no scheduler, so only a scheduler that answers to
the name `volcano` accepts groups: under any other name, Volcano itself may be at work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from kubekit.errors import MusterError
from kubekit.request_errors import NotFound
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from muster.scheduler.effects.reporter import Refusals
from muster.scheduler.isolated_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Collection

    from kubekit.client.client import Client
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Key
    from muster.contract.pod_groups import VolcanoPodGroup

log = logging.getLogger(__name__)

VOLCANO = "volcano"
INQUEUE = "Inqueue"
NOT_ACCEPTED = ("", "Pending")
RETRY_SECONDS = 5.0
"""Seconds until writes that failed are retried."""


class GroupAcceptor:
    """The PodGroups that are to be accepted."""

    def __init__(self, client: Client, names: Collection[str]) -> None:
        self._client, self._active = client, VOLCANO in names
        self._waiting: dict[Key, float] = {}
        """The groups, and when each is to be written, by the clock of the loop."""
        self._wake = asyncio.Event()
        self._refusals = Refusals(log)

    def group_changed(self, kind: Kind[Any], key: Key, new: VolcanoPodGroup | None) -> None:
        """An object that declares a gang was created, changed or deleted."""
        if not self._active or kind is not VOLCANO_POD_GROUPS:
            return
        if new is not None and new.status.phase in NOT_ACCEPTED:
            self._waiting.setdefault(key, 0.0)
            self._wake.set()
        else:
            self._waiting.pop(key, None)

    async def run(self) -> None:
        """Accept groups until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            self._wake.clear()
            for key in [key for key, due in self._waiting.items() if due <= clock()]:
                # Taken out first: a group of that name that comes during the write is written too.
                if self._waiting.pop(key, None) is None:
                    continue
                accepted = False
                with isolated("group", key):
                    accepted = await self._accept(key)
                if not accepted:
                    self._waiting.setdefault(key, clock() + RETRY_SECONDS)
            # Groups that arrived during the writes have set the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(self._waiting.values(), default=None)):
                    await self._wake.wait()

    async def _accept(self, key: Key) -> bool:
        """Write the phase; False if that failed and is to be tried again."""
        body = {"status": {"phase": INQUEUE}}
        try:
            await self._client.patch(VOLCANO_POD_GROUPS, key, body, subresource="status")
        except NotFound:
            return True
        except MusterError as error:
            self._refusals.take(error, None)
            return False
        return True
