"""Other live schedulers of the same name, and our own lease for each name.

Two schedulers of one name bind the same pods, and neither holds room for the other's gangs. A
scheduler is live if it holds a Lease that it renewed lately. Ours hold one for each name they
answer to, also without leader election. The leases decide nothing; if they cannot be written, that
is logged once and the scheduler goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from muster.api.kinds import LEASES
from muster.api.meta import Key, timestamp
from muster.errors import MusterError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.api.core import Lease
    from muster.api.meta import Raw
    from muster.kube.client import Client


LEASE_PREFIX = "muster-scheduler"
LEASES_OF = {
    "default-scheduler": ("kube-scheduler",),
    "volcano": ("volcano", "vc-scheduler"),
    "scheduler-plugins-scheduler": ("scheduler-plugins-scheduler", "sig-scheduling"),
    "koord-scheduler": ("koord-scheduler",),
    "kube-batchd": ("kube-batchd", "kube-batch"),
    "yunikorn": ("yunikorn", "yunikorn-scheduler"),
}
"""What schedulers call their lease where it is not named like themselves."""
ELECTED = "elected"
"""Who holds the marks of a scheduler that was elected: its replicas wait their turn beside it."""
ALIVE_SECONDS = 60.0
"""Seconds; longer where the lease itself runs longer."""
LEASE_FIELD_SELECTOR = "metadata.namespace!=kube-node-lease"
"""Selects the leases worth reading: every node renews one of its own."""


class OtherScheduler(NamedTuple):
    """A scheduler that is alive: the name it answers to, its lease, and the lease's age."""

    name: str
    lease: str
    holder: str
    age: float

    def __str__(self) -> str:
        return (
            f"the scheduler of {self.name} is alive: {self.holder} renewed the lease "
            f"{self.lease} {max(0.0, self.age):.0f} s ago"
        )


def name_lease(name: str) -> str:
    """The lease that marks a scheduler of ours which answers to a name."""
    return f"{LEASE_PREFIX}.{re.sub('[^a-z0-9-]', '-', name.lower()).strip('-')}"


def find_others(
    names: Iterable[str],
    leases: Iterable[Lease],
    now: datetime,
    *,
    gone: Callable[[str], bool] = lambda _: False,
) -> list[OtherScheduler]:
    """The live schedulers of these names, without holders of our leases that are `gone`."""
    others = []
    living = [(lease, age) for lease in leases if (age := _age(lease, now)) is not None]
    for name in names:
        # The lease of our own leader election names no rival: the replicas share it.
        rivals = {name, f"{name}-scheduler", *LEASES_OF.get(name, ())} - {LEASE_PREFIX}
        for lease, age in living:
            holder, lasts = lease.spec.holder_identity or "", lease.spec.lease_duration_seconds or 0
            ours = lease.metadata.name == name_lease(name) and age < lasts and not gone(holder)
            if ours or lease.metadata.name in rivals:
                others.append(OtherScheduler(name, str(lease.metadata.key), holder, age))
    return sorted(others)


def _age(lease: Lease, now: datetime) -> float | None:
    """Seconds since a lease was renewed; None if it was given up or has run out."""
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return None
    age = (now - spec.renew_time).total_seconds()
    return age if age < max(ALIVE_SECONDS, 2.0 * (spec.lease_duration_seconds or 0)) else None


log = logging.getLogger(__name__)

RENEW_EVERY = 10.0
LEASE_SECONDS = 30
GIVE_UP_WITHIN = 2.0
"""Seconds that taking the marks away may take."""


class NameLeases:
    """The marks of one process."""

    def __init__(
        self, client: Client, names: Iterable[str], namespace: str, *, elected: bool
    ) -> None:
        self._client = client
        self._keys = [Key(namespace, name_lease(name)) for name in names]
        self._holder = ELECTED if elected else holder_identity(os.getpid())
        self._silent = False

    async def run(self) -> None:
        """Renew the marks until cancelled, then take them away."""
        try:
            while True:
                await self._mark(self._holder)
                await asyncio.sleep(RENEW_EVERY)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GIVE_UP_WITHIN):
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
        spec: Raw = {"holderIdentity": who, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
        try:
            await self._client.patch(LEASES, key, {"spec": spec})
        except NotFound:
            metadata = {"name": key.name, "namespace": key.namespace}
            await self._client.create(LEASES, {"metadata": metadata, "spec": spec})


def holder_identity(pid: int) -> str:
    """How a process of this machine is called in its marks."""
    return f"{socket.gethostname()}/{pid}"


def has_died(who: str) -> bool:
    """Whether the holder of a mark was a process of this machine that has died.

    One with our own number is: after a restart a container counts from one again.
    """
    host, _, pid = who.rpartition("/")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    if int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # alive, and of another user
    return False
