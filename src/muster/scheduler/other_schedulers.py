"""Other live schedulers of the same name, and our own lease for each name.

Two schedulers of one name bind the same pods, and neither holds room for the other's gangs. A
scheduler is live if it holds a Lease that it renewed lately. A Muster scheduler holds a lease for
each name it answers to, also without leader election. A scheduler does not start beside a live
lease of its name, unless it is forced or in shadow mode. If its own leases cannot be written, it
logs that once and runs on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from muster.api.kinds import LEASES
from muster.api.meta import Key, timestamp
from muster.errors import Conflict, MusterError, NotFound
from muster.scheduler.rights import LEASE, name_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.api.core import Lease
    from muster.api.meta import Raw
    from muster.kube.client import Client


LEASES_OF = {"default-scheduler": ("kube-scheduler",)}
"""The lease names of schedulers whose lease is not named like themselves.

Volcano's lease is `volcano` (commit 04d59659), Koordinator's `koord-scheduler` (15d48f35). Others
have none by default: kube-batch locks a ConfigMap (1ebe60e4), kube-batchd and YuniKorn nothing, and
scheduler-plugins 0.35 does not elect. `muster install` and `muster doctor` find these by their
Deployments.
"""
ELECTED = "elected"
"""The holder of the leases of an elected scheduler: its replicas do not warn of each other."""
ALIVE_SECONDS = 60.0
"""How long after its last renewal a lease counts as live; longer for a lease that lasts longer."""
LEASE_FIELD_SELECTOR = "metadata.namespace!=kube-node-lease"
"""Leaves out the leases of nodes, of which there is one per node."""


class OtherScheduler(NamedTuple):
    """A live scheduler: the name it answers to, its lease, and the lease's holder and age."""

    name: str
    lease: str
    holder: str
    age: float

    def __str__(self) -> str:
        return (
            f"the scheduler of {self.name} is alive: {self.holder} renewed the lease "
            f"{self.lease} {max(0.0, self.age):.0f} s ago"
        )


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
        # The lease of our own leader election is no other scheduler: the replicas share it.
        lease_names = {name, f"{name}-scheduler", *LEASES_OF.get(name, ())} - {LEASE}
        for lease, age in living:
            holder = lease.spec.holder_identity or ""
            duration = lease.spec.lease_duration_seconds or 0
            ours = lease.metadata.name == name_lease(name) and age < duration and not gone(holder)
            if ours or lease.metadata.name in lease_names:
                others.append(OtherScheduler(name, str(lease.metadata.key), holder, age))
    return sorted(others)


def is_alive(lease: Lease, now: datetime) -> bool:
    """Whether a lease has a holder that renewed it lately."""
    return _age(lease, now) is not None


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
ANY_VERSION = ""
GIVE_UP_WITHIN = 2.0
"""Seconds for giving up the leases at the end."""


def holder_identity(pid: int) -> str:
    """The holder of a name lease: a process of this machine."""
    return f"{socket.gethostname()}/{pid}"


def has_died(holder: str) -> bool:
    """Whether the holder of a name lease was a process of this machine that has died."""
    host, _, pid = holder.rpartition("/")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    if int(pid) == os.getpid():  # an earlier process: a restarted container counts from 1 again
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # alive, and of another user
    return False


async def claim_names(
    client: Client,
    names: Iterable[str],
    namespace: str,
    holder: str,
    *,
    gone: Callable[[str], bool] = has_died,
) -> list[OtherScheduler]:
    """Take the lease of every name, or return the live schedulers of these names.

    A lease is written in the version that was read: of two schedulers that start at the same moment
    the second one reads again, and finds the first.
    """
    wanted = sorted(names)  # in one order, so that of two claimants one gets all
    while True:
        leases = (await client.list(LEASES, fields=LEASE_FIELD_SELECTOR)).items
        others = find_others(
            wanted, leases, datetime.now(UTC), gone=lambda other: other == holder or gone(other)
        )
        if others:
            return others
        versions = {lease.metadata.key: lease.metadata.resource_version for lease in leases}
        try:
            for name in wanted:
                key = Key(namespace, name_lease(name))
                await _write(client, key, holder, versions.get(key))
        except Conflict:
            continue
        return []


async def _write(client: Client, key: Key, holder: str, version: str | None) -> None:
    """Write a name lease; `Conflict` if it is no longer in that version (None: does not exist)."""
    now = timestamp(datetime.now(UTC), micro=True)
    spec: Raw = {
        "holderIdentity": holder,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": now,
    }
    if version is None:
        metadata = {"name": key.name, "namespace": key.namespace}
        await client.create(LEASES, {"metadata": metadata, "spec": spec})
        return
    change: Raw = {"spec": spec}
    if version:
        change["metadata"] = {"resourceVersion": version}
    await client.patch(LEASES, key, change)


class NameLeases:
    """The name leases of one process."""

    def __init__(
        self, client: Client, names: Iterable[str], namespace: str, *, elected: bool
    ) -> None:
        self._client = client
        self._keys = [Key(namespace, name_lease(name)) for name in names]
        self._holder = ELECTED if elected else holder_identity(os.getpid())
        self._silent = False

    async def run(self) -> None:
        """Renew the leases until cancelled, then give them up."""
        try:
            while True:
                await self._renew(self._holder)
                await asyncio.sleep(RENEW_EVERY)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GIVE_UP_WITHIN):
                    await self._renew("")

    async def _renew(self, holder: str) -> None:
        for key in self._keys:
            try:
                try:
                    await _write(self._client, key, holder, ANY_VERSION)
                except NotFound:
                    await _write(self._client, key, holder, None)
            except MusterError as error:
                if not self._silent:
                    log.warning("cannot renew this scheduler's name lease: %s", error)
                self._silent = True
