"""Leader election by Lease: one of several processes acts, and it knows when it may not.

A Lease does not fence: a leader that was paused does not notice by itself that another took over.
So time keeps two from acting at once. The leader counts from the moment *before* it sent its last
successful renewal and stops acting after `renew_deadline`; a contender counts from the moment it
*saw* the last renewal, which is later, and waits the longer `duration`. The difference of the two
is the time in which a request that was already sent can still arrive. Only lengths of time are
compared, never the clocks of two machines, and the clock goes on while a machine sleeps.

`is_leader()` is true in at most one process at any moment, as long as clocks run at the same speed.
Call it right before acting.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kubekit.errors import MusterError, UsageError, single_error
from kubekit.objects.kinds import LEASES
from kubekit.objects.meta import Key, Raw, timestamp
from kubekit.request_errors import Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kubekit.client.client import Client
    from kubekit.objects.kinds import Kind

log = logging.getLogger(__name__)

_RAW: Kind[Raw] = LEASES.read_as(cast("type[Raw]", dict))
RELEASE_TIMEOUT = 3.0


class LeaseLost(MusterError):
    """This process is no longer the leader and must stop acting."""


def steady_clock() -> float:
    """A monotonic clock that, where the system has one, goes on while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class ObservedLease(NamedTuple):
    """The lease as last read, and when it was first seen in that state."""

    record: Raw
    at: float


class LeaderElection:
    """One contender. `identity` must differ between processes, and change with a restart."""

    def __init__(  # noqa: PLR0913 - the terms of a lease are three
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry: float = 2.0,
        clock: Callable[[], float] = steady_clock,
    ) -> None:
        if not retry < renew_deadline < duration:
            raise UsageError("a lease needs: retry < renew deadline < duration")
        self._client, self._key, self._identity = client, Key(namespace, name), identity
        self._duration, self._deadline, self._retry = duration, renew_deadline, retry
        self._clock = clock
        self._seen: ObservedLease | None = None  # as last read or written
        self._renewed_at: float | None = None
        self._problem = ""

    def is_leader(self) -> bool:
        """Whether this process may act now."""
        renewed = self._renewed_at
        return renewed is not None and self._clock() - renewed < self._deadline

    @property
    def holder(self) -> str:
        """The identity that held the lease when it was last read."""
        return _holder(self._seen.record) if self._seen is not None else ""

    async def run_as_leader(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `work`; it is cancelled with LeaseLost if the lease is lost.

        Returns when `work` does. The lease is released on every way out except a crash.
        """
        await self._acquire()
        log.info("%s: %s is the leader", self._key, self._identity)
        try:
            async with asyncio.TaskGroup() as group:
                renewal = group.create_task(self._renew())
                await work()
                renewal.cancel()
        except BaseExceptionGroup as group_error:
            raise single_error(group_error) from None
        finally:
            await self._release()

    async def _acquire(self) -> None:
        while True:
            if await self._try():
                return
            # Jitter: replicas that started together must not all write at the same moment.
            await asyncio.sleep(self._retry * random.uniform(0.8, 1.2))

    async def _renew(self) -> None:
        """Renew the lease until that fails for too long."""
        while True:
            await asyncio.sleep(min(self._retry, max(0.0, self._left())))
            try:
                # A renewal that succeeds after the deadline comes too late to go on acting.
                async with asyncio.timeout(max(0.0, self._left())):
                    renewed = await self._try()
            except TimeoutError:
                renewed = False
            if not renewed and (self._left() <= 0.0 or self.holder != self._identity):
                self._renewed_at = None
                to_whom = f" to {self.holder}" if self.holder not in ("", self._identity) else ""
                raise LeaseLost(f"lost the lease {self._key}{to_whom}")

    def _left(self) -> float:
        renewed = float("-inf") if self._renewed_at is None else self._renewed_at
        return renewed + self._deadline - self._clock()

    async def _try(self) -> bool:
        """One attempt to acquire or renew the lease; an error is logged and counts as a failure."""
        try:
            done = await self._acquire_or_renew()
        except Conflict:
            return False  # another contender wrote first
        except MusterError as error:
            if str(error) != self._problem:  # a missing right would be logged every two seconds
                log.warning("lease %s not acquired or renewed: %s", self._key, error)
            self._problem = str(error)
            return False
        self._problem = ""
        return done

    async def _acquire_or_renew(self) -> bool:
        sent_at = self._clock()
        try:
            record = await self._client.get(_RAW, self._key)
        except NotFound:
            created = await self._client.create(_RAW, self._record(None))
            return self._acquired(created, sent_at)
        seen = self._seen = self._observe(record)
        # The holder's own duration counts: it may be configured differently from ours.
        duration = (record.get("spec") or {}).get("leaseDurationSeconds") or self._duration
        expired = self._clock() - seen.at > duration
        if _holder(record) not in ("", self._identity) and not expired:
            return False
        replaced = await self._client.replace(_RAW, self._record(record))
        return self._acquired(replaced, sent_at)

    def _observe(self, record: Raw) -> ObservedLease:
        """The lease and when its state was first seen: it expires if that stays the same."""
        if self._seen is not None and self._seen.record.get("spec") == record.get("spec"):
            return ObservedLease(record, self._seen.at)  # not renewed since
        return ObservedLease(record, self._clock())

    def _acquired(self, record: Raw, sent_at: float) -> bool:
        self._seen = ObservedLease(record, self._clock())
        self._renewed_at = sent_at
        return True

    def _record(self, former: Raw | None) -> Raw:
        now = timestamp(datetime.now(UTC), micro=True)
        spec: dict[str, Any] = dict((former or {}).get("spec") or {})
        if _holder(former or {}) != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
        spec |= {"holderIdentity": self._identity, "renewTime": now}
        # Whole seconds in the API: rounded up, so that a contender never waits less than this.
        spec["leaseDurationSeconds"] = int(-(-self._duration // 1))
        return {"metadata": (former or {}).get("metadata") or self._key._asdict(), "spec": spec}

    async def _release(self) -> None:
        """Release the lease, so that the next leader need not wait. A failure only costs time."""
        if not self.is_leader() or self._seen is None:
            self._renewed_at = None
            return
        self._renewed_at = None  # first stop acting, then let others start
        record = self._record(self._seen.record)
        # As client-go releases a lease: without a holder it is free at once, and the duration must
        # be positive.
        record["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT):
                await self._client.replace(_RAW, record)
        except (MusterError, TimeoutError) as error:
            log.warning("%s: not released: %s", self._key, str(error) or "no answer in time")


def _holder(record: Raw) -> str:
    holder: str = (record.get("spec") or {}).get("holderIdentity") or ""
    return holder
