"""A scheduler's mark on the cluster: a Lease for each name it answers to, renewed while it runs.

Run by the service. It decides nothing and fences nothing; it lets `rivals` see another scheduler of
ours that runs without an election. Cannot be written: said once, and the scheduler goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster.api.kinds import LEASES
from muster.api.meta import Key, timestamp
from muster.errors import MusterError, NotFound
from muster.scheduler.rivals import ELECTED, mark_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.meta import Raw
    from muster.kube.client import Client

log = logging.getLogger(__name__)

EVERY = 10.0
LASTS = 30
LAST_WORD = 2.0
"""Seconds that taking the marks away may take."""


class Presence:
    """The marks of one process."""

    def __init__(
        self, client: Client, names: Iterable[str], namespace: str, *, elected: bool
    ) -> None:
        self._client = client
        self._keys = [Key(namespace, mark_of(name)) for name in names]
        self._holder = ELECTED if elected else holder(os.getpid())
        self._silent = False

    async def run(self) -> None:
        """Renew the marks until cancelled, then take them away."""
        try:
            while True:
                await self._mark(self._holder)
                await asyncio.sleep(EVERY)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD):
                    await self._mark("")

    async def _mark(self, who: str) -> None:
        for key in self._keys:
            try:
                await self._write(key, who)
            except MusterError as error:
                if not self._silent:
                    log.warning("others cannot see that this scheduler runs: %s", error)
                self._silent = True

    async def _write(self, key: Key, who: str) -> None:
        now = timestamp(datetime.now(UTC), micro=True)
        spec: Raw = {"holderIdentity": who, "leaseDurationSeconds": LASTS, "renewTime": now}
        try:
            await self._client.patch(LEASES, key, {"spec": spec})
        except NotFound:
            metadata = {"name": key.name, "namespace": key.namespace}
            await self._client.create(LEASES, {"metadata": metadata, "spec": spec})


def holder(pid: int) -> str:
    """How a process of this machine is called in its marks."""
    return f"{socket.gethostname()}/{pid}"


def is_gone(who: str) -> bool:
    """Whether the holder of a mark was a process of this machine that has died.

    One with our own number is: after a restart a container counts from one again.
    """
    host, _, number = who.rpartition("/")
    if host != socket.gethostname() or not number.isdecimal():
        return False
    if int(number) == os.getpid():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
