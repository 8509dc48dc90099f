"""The leases by which a Muster scheduler says which names it answers to.

It holds a lease for each name, with or without leader election. A scheduler does not start beside a
live lease of its name, unless it is forced or in shadow mode. If its own leases cannot be renewed,
it logs that once and runs on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.kinds import LEASES
from kubekit.objects.meta import Key, timestamp
from kubekit.request_errors import Conflict, NotFound
from muster.contract.other_schedulers import ELECTED, LEASE_FIELD_SELECTOR, find_others
from muster.contract.scheduler_rights import name_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubekit.client.client import Client
    from kubekit.objects.meta import Raw
    from muster.contract.other_schedulers import OtherScheduler

log = logging.getLogger(__name__)

RENEW_EVERY = 10.0
LEASE_SECONDS = 30
GIVE_UP_WITHIN = 2.0
"""Seconds for giving up the leases at the end."""


def holder_identity(pid: int) -> str:
    """The holder of a name lease: a process of this machine."""
    return f"{socket.gethostname()}/{pid}"


def has_died(holder: str) -> bool:
    """Whether the holder of a name lease was a process of this machine that has died."""
    host, _, pid = holder.rpartition("/")
    number = read_integer(pid)
    if host != socket.gethostname() or not number:
        return False
    if number == os.getpid():  # an earlier process: a restarted container counts from 1 again
        return True
    try:
        os.kill(number, 0)
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
                if key in versions:
                    await _update(client, key, holder, versions[key])
                else:
                    await _create(client, key, holder)
        except Conflict:
            continue
        return []


async def _create(client: Client, key: Key, holder: str) -> None:
    """Write a name lease that does not exist; `Conflict` if it does."""
    metadata = {"name": key.name, "namespace": key.namespace}
    await client.create(LEASES, {"metadata": metadata, "spec": _spec(holder)})


async def _update(client: Client, key: Key, holder: str, version: str = "") -> None:
    """Write a name lease that exists; `Conflict` if it is no longer in the given version."""
    change: Raw = {"spec": _spec(holder)}
    if version:
        change["metadata"] = {"resourceVersion": version}
    await client.patch(LEASES, key, change)


def _spec(holder: str) -> Raw:
    return {
        "holderIdentity": holder,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": timestamp(datetime.now(UTC), micro=True),
    }


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
                    await _update(self._client, key, holder)
                except NotFound:
                    await _create(self._client, key, holder)
            except MusterError as error:
                if not self._silent:
                    log.warning("cannot renew this scheduler's name lease: %s", error)
                self._silent = True
