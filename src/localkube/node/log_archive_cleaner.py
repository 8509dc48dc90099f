"""Removes archived logs: those of deleted jobs, and the oldest ones beyond the bound.

It runs when a job is deleted, when a log was archived, and once at the start: a job may have been
deleted while no daemon ran. A job that the watches do not show is read from the API before its logs
are removed, because the watches may be behind.

The bound first limits every replica by itself, so that one replica that restarts for days does not
push out the logs of all others: its oldest attempts go, never its newest. Then, if all logs
together are too large, logs of finished jobs go, of the job that ended first before those of the
next, and the oldest attempts of a job first. Only when no finished job has logs left do the oldest
attempts of running jobs go; the newest log of a running job always stays.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import MusterError, describe
from kubekit.objects.kinds import PartialObjectMetadata
from kubekit.objects.meta import Key, OwnerReference, Raw
from kubekit.request_errors import NotFound
from kubekit.telemetry import unexpected_errors
from kubekit.watch.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kubekit.client.client import Client
    from kubekit.control.manager import Manager
    from kubekit.objects.core import PodLog
    from kubekit.watch.informer_cache import Change
    from localkube.node.log_archive import LogArchive, LogOwners

log = logging.getLogger(__name__)

TOTAL = 1 << 30
"""Bytes of all archived logs together."""
PER_REPLICA = 256 << 20
"""Bytes of all archived attempts at one container of one replica."""
OVERHEAD = 8 << 10
"""Bytes that an entry occupies besides its log: a directory and a small file."""


class ArchiveCleaner:
    def __init__(self, archive: LogArchive, client: Client, owners: LogOwners) -> None:
        self._archive, self._client, self._owners = archive, client, owners
        self._wake = asyncio.Event()
        self._wake.set()
        self._jobs = {
            kind.kind: Informer(client, kind.read_as(PartialObjectMetadata))
            for kind in owners.kinds
        }

    def register(self, manager: Manager) -> None:
        """Add the watches of jobs and the cleaning to the node's tasks."""
        for informer in self._jobs.values():
            manager.informer(informer).subscribe(self._job_changed)
        # Led: with synced watches, the first round reads no job that exists from the API.
        manager.background("log archive", self.run, led=True)

    def _job_changed(self, change: Change[PartialObjectMetadata]) -> None:
        if change.new is None:
            self._wake.set()

    async def run(self) -> None:
        """Clean until cancelled."""
        loop = asyncio.get_running_loop()

        def changed() -> None:  # logs are archived by threads
            loop.call_soon_threadsafe(self._wake.set)

        self._archive.changed = changed
        await asyncio.to_thread(self._archive.remove_fragments)
        while True:
            await self._wake.wait()
            self._wake.clear()
            with unexpected_errors.isolated("log archive", ""):
                try:
                    await self.clean()
                except OSError as error:  # the next change tries again
                    log.warning("archived logs are not removed: %s", describe(error))

    async def clean(self) -> None:
        """Remove the logs of deleted jobs, then logs beyond the bound."""
        logs = await asyncio.to_thread(lambda: list(self._archive.entries()))
        jobs = {log.metadata.owner_references[0].uid: log for log in logs}
        gone = {uid for uid, log in jobs.items() if not await self._exists(log)}
        for uid in gone:
            await asyncio.to_thread(self._archive.remove_job, uid)
        left = [log for log in logs if log.metadata.owner_references[0].uid not in gone]
        entries = [_entry(log) for log in left]
        removed = over_replica_bound(entries, PER_REPLICA)
        entries = [entry for entry in entries if entry not in removed]
        if sum(entry.charge for entry in entries) > TOTAL:
            removed += over_total_bound(entries, await self._ends(left), TOTAL)
        for entry in removed:
            await asyncio.to_thread(self._archive.remove, entry.job, entry.name)

    async def _exists(self, log: PodLog) -> bool:
        owner = log.metadata.owner_references[0]
        jobs = self._jobs.get(owner.kind)
        known = jobs.get(Key(log.metadata.namespace, owner.name)) if jobs is not None else None
        if known is not None and known.metadata.uid == owner.uid:
            return True
        try:
            job = await self._read(log.metadata.namespace, owner)
        except NotFound:
            return False
        except MusterError:
            return True  # not known: a later round decides
        return bool(job["metadata"]["uid"] == owner.uid)

    async def _read(self, namespace: str, owner: OwnerReference) -> Raw:
        kind = self._owners.kind_of(owner)
        if kind is None:
            raise NotFound(f"{owner.kind} is not a kind whose logs are kept")
        return await self._client.get(kind, Key(namespace, owner.name))

    async def _ends(self, logs: Sequence[PodLog]) -> dict[str, float]:
        """When each finished job ended."""
        ends = {}
        owners = {log.metadata.owner_references[0].uid: log for log in logs}
        for uid, log in owners.items():
            # An error of the API: it is gone, or cannot be read now, and its logs stay.
            with unexpected_errors.isolated("log archive", log.metadata.key), suppress(MusterError):
                job = await self._read(log.metadata.namespace, log.metadata.owner_references[0])
                if (ended := self._owners.ended_at(job)) is not None:
                    ends[uid] = ended
        return ends


class Entry(NamedTuple):
    """An archived log, as far as the bound needs it."""

    job: str
    replica: str
    """Pod name and container: the same for all attempts at it."""
    name: str
    at: float
    """When the attempt ended."""
    size: int

    @property
    def charge(self) -> int:
        return self.size + OVERHEAD


def _entry(log: PodLog) -> Entry:
    ended = log.finished_at or log.started_at
    return Entry(
        log.metadata.owner_references[0].uid,
        f"{log.pod_name}/{log.container}",
        log.metadata.name,
        ended.timestamp() if ended is not None else 0.0,
        log.size,
    )


def over_replica_bound(entries: Iterable[Entry], limit: int) -> list[Entry]:
    """The oldest attempts of replicas whose logs are too large; never the newest attempt."""
    replicas: dict[tuple[str, str], list[Entry]] = {}
    for entry in sorted(entries, key=_newest_first):
        replicas.setdefault((entry.job, entry.replica), []).append(entry)
    return [entry for attempts in replicas.values() for entry in _beyond(attempts, limit)]


def _beyond(newest_first: Sequence[Entry], limit: int) -> list[Entry]:
    used = 0
    for position, entry in enumerate(newest_first):
        used += entry.charge
        if used > limit and position > 0:
            return list(newest_first[position:])
    return []


def over_total_bound(
    entries: Sequence[Entry], ended: Mapping[str, float], limit: int
) -> list[Entry]:
    """The logs to remove if all together are too large; `ended` has when each finished job ended.

    A job that is not in `ended` still runs.
    """
    newest: dict[str, Entry] = {}
    for entry in sorted(entries, key=_newest_first):
        newest.setdefault(entry.job, entry)

    finished = [entry for entry in entries if entry.job in ended]
    running = [entry for entry in entries if entry.job not in ended and entry != newest[entry.job]]

    def order(entry: Entry) -> tuple[float, str, float, str]:
        return ended[entry.job], entry.job, entry.at, entry.name

    candidates = [*sorted(finished, key=order), *sorted(running, key=_oldest_first)]
    excess = sum(entry.charge for entry in entries) - limit
    removed = []
    for entry in candidates:
        if excess <= 0:
            break
        removed.append(entry)
        excess -= entry.charge
    return removed


def _oldest_first(entry: Entry) -> tuple[float, str]:
    return entry.at, entry.name


def _newest_first(entry: Entry) -> tuple[float, str]:
    return -entry.at, entry.name
