"""Deletes pods, some at a time, each until it is gone.

Pods are marked before they are deleted (see `decisions.gang_deletion`), all pods of a gang before
the first one is deleted. So after a crash the pods that are left show that they were to be deleted,
and do not look like a gang that lost members. A pod that cannot be marked is deleted anyway.

Promise: a pod handed in is deleted by its UID, or is already gone or replaced. A deletion that
fails is retried, less and less often, and delays no other. Deletions that are open when the task is
cancelled, as when the lead is lost, are retried when it runs again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.client.request import PatchType
from kubekit.errors import MusterError
from kubekit.objects.kinds import PODS
from kubekit.request_errors import ApiError, Conflict, NotFound, is_temporary
from muster.scheduler.decisions import gang_deletion
from muster.scheduler.effects.reporter import Refusals, report_to_nobody
from muster.scheduler.isolated_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod
    from muster.scheduler.decisions.decision import Delete
    from muster.scheduler.effects.reporter import ReportRight

log = logging.getLogger(__name__)

IN_FLIGHT = 16
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
MARK_AGAIN = 60.0
"""Seconds after which a pod that is still there is marked again: controllers remove conditions."""
QUIET_FAILURES = 3
"""Temporary failures before they are reported, or a pod is deleted without its mark."""


@dataclass
class _Batch:
    """Pods that are marked before any of them is deleted."""

    unmarked: set[str]
    marked: list[_Deletion] = field(default_factory=list)


@dataclass
class _Deletion:
    """One pod to be deleted, and the state of its deletion."""

    delete: Delete
    pod: Pod
    since: datetime
    batch: _Batch
    marked_at: float = -math.inf
    failures: int = 0
    error: str = ""

    @property
    def pause(self) -> float:
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10))


class Deleter:
    """Deletions under way. `may_act` is called before each step.

    `on_failure` gets the delete, the pod and the server's message; an empty message once a pod that
    failed is deleted.
    """

    def __init__(
        self,
        client: Client,
        on_failure: Callable[[Delete, Pod, str], None],
        *,
        may_act: Callable[[], bool] = lambda: True,
        report_right: ReportRight = report_to_nobody,
    ) -> None:
        self._client, self._on_failure, self._may_act = client, on_failure, may_act
        self._ready: asyncio.Queue[_Deletion] = asyncio.Queue()
        self._open: dict[str, _Deletion] = {}
        self._refusals = Refusals(log, report_right)

    def submit(self, delete: Delete) -> None:
        """Delete all these pods, as soon as possible; deletions under way are not started again."""
        since = gang_deletion.decided_at(delete, datetime.now(UTC))
        pods = {p.metadata.uid: p for p in delete.pods if p.metadata.uid not in self._open}
        for pod in delete.pods:
            known = self._open.get(pod.metadata.uid)
            if known is not None and known.error:
                self._on_failure(delete, pod, known.error)
        batch = _Batch(set(pods))
        for uid, pod in pods.items():
            deletion = self._open[uid] = _Deletion(delete, pod, since, batch)
            self._ready.put_nowait(deletion)

    async def run(self) -> None:
        """Delete until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(IN_FLIGHT):
                    group.create_task(self._work(self._ready))
        finally:
            self._ready = asyncio.Queue()
            for deletion in self._open.values():
                deletion.batch.marked.clear()
                self._ready.put_nowait(deletion)

    async def _work(self, ready: asyncio.Queue[_Deletion]) -> None:
        """Take one deletion after the other; one that failed waits outside the queue."""
        loop = asyncio.get_running_loop()
        while True:
            deletion = await ready.get()
            batch = deletion.batch
            pause: float | None = LONGEST_PAUSE
            with isolated("deletion", deletion.pod.metadata.key) as guard:
                if self._may_act():
                    pause = await self._advance(deletion)
            if guard.error is not None:  # it is deleted even if it cannot be marked
                deletion.marked_at = loop.time()
                batch.unmarked.discard(deletion.pod.metadata.uid)
            if pause is not None:
                loop.call_later(pause, ready.put_nowait, deletion)
            elif batch.unmarked:
                batch.marked.append(deletion)
            if not batch.unmarked:
                for other in batch.marked:
                    ready.put_nowait(other)
                batch.marked.clear()

    async def _advance(self, deletion: _Deletion) -> float | None:
        """Mark the pod, and delete it once its batch is marked; the pause if that failed."""
        uid, unmarked = deletion.pod.metadata.uid, deletion.batch.unmarked
        try:
            await self._mark(deletion)
            if uid in unmarked:
                unmarked.remove(uid)
                deletion.failures = 0  # failures of the deletion are counted from zero again
            if not unmarked:
                await self._delete(deletion)
        except MusterError as error:
            return self._failed(deletion, error)
        return None

    async def _mark(self, deletion: _Deletion) -> None:
        """Mark a pod, unless its mark is recent; raises only errors that are temporary."""
        now, pod = asyncio.get_running_loop().time(), deletion.pod
        if now - deletion.marked_at < MARK_AGAIN or pod.metadata.deletion_timestamp is not None:
            return
        body = gang_deletion.mark_patch(deletion.delete, pod, deletion.since, datetime.now(UTC))
        try:
            await self._client.patch(
                PODS, pod.metadata.key, body, patch_type=PatchType.STRATEGIC, subresource="status"
            )
        except (NotFound, Conflict):
            pass
        except ApiError as error:
            if is_temporary(error) and deletion.failures < QUIET_FAILURES:
                raise
            self._refusals.take(error, deletion.delete.gang, (pod,))
        deletion.marked_at = now

    async def _delete(self, deletion: _Deletion) -> None:
        """Delete a pod, or find that it is gone; mostly a conflict means that it was replaced."""
        metadata = deletion.pod.metadata
        try:
            await self._client.delete(PODS, metadata.key, uid=metadata.uid)
        except NotFound:
            pass
        except Conflict:
            if await self._is_there(deletion.pod):
                raise
        del self._open[metadata.uid]
        if deletion.error:
            self._on_failure(deletion.delete, deletion.pod, "")

    async def _is_there(self, pod: Pod) -> bool:
        try:
            now = await self._client.get(PODS, pod.metadata.key)
        except NotFound:
            return False
        same = now.metadata.uid == pod.metadata.uid
        return same and now.metadata.deletion_timestamp is None

    def _failed(self, deletion: _Deletion, error: MusterError) -> float:
        deletion.failures += 1
        pause = deletion.pause
        if isinstance(error, ApiError) and error.retry_after:
            pause = max(pause, error.retry_after)
        temporary = is_temporary(error) or isinstance(error, Conflict)
        quiet = temporary and deletion.failures <= QUIET_FAILURES
        log.debug("%s: tried again in %.1f s: %s", deletion.pod.metadata.key, pause, error)
        if not quiet and deletion.error != str(error):
            self._refusals.take(error, deletion.delete.gang, (deletion.pod,))
            deletion.error = str(error)
            self._on_failure(deletion.delete, deletion.pod, deletion.error)
        return pause
