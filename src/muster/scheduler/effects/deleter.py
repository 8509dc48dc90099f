"""Deletions, some at a time, each until it is done.

Fed by the service with what `decide` wants deleted, run in its task group. Pods are marked before
they are deleted (see `marks`), all of a gang before the first of it goes: so whoever is left after
a crash says that it was to go, and does not look like the rest of a gang that lost members. Pods
that cannot be marked are deleted all the same.

Promise: a pod handed in is deleted as the very pod that was meant, or is gone or another has its
name. What fails is tried again, less and less often, and holds up nobody else; what is open when
the task is cancelled, as when the lead is lost, is tried again when it runs again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from muster.api.kinds import PODS
from muster.errors import (
    ApiError,
    Conflict,
    MusterError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from muster.kube.request import PatchType
from muster.scheduler.decisions import takedown
from muster.scheduler.effects.reporter import WarnOnce

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.core import Pod
    from muster.api.kinds import Kind
    from muster.api.meta import Key
    from muster.scheduler.decisions.decision import Delete

log = logging.getLogger(__name__)

IN_FLIGHT = 16
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
MARK_AGAIN = 60.0
"""Seconds after which a pod that is still there is marked again: controllers take marks back."""
NEVER = -1e9
TEMPORARY_ERRORS = ServerError | TooManyRequests | Conflict | Unauthorized
"""Answers that may be another in a moment; a server that starts knows nobody at first."""
QUIET_FAILURES = 3
"""Failures that may be a moment's, before they are told or a pod is deleted without its mark."""


class DeleteClient(Protocol):
    """What is needed of a client."""

    async def get(self, kind: Kind[Pod], key: Key, /) -> Pod: ...

    async def patch(
        self, kind: Kind[Pod], key: Key, body: object, *, patch_type: PatchType, subresource: str
    ) -> Any: ...

    async def delete(self, kind: Kind[Any], key: Key, *, uid: str) -> None: ...


@dataclass
class _Batch:
    """Pods that are marked before any of them is deleted."""

    unmarked: set[str]
    marked: list[_Deletion] = field(default_factory=list)


@dataclass
class _Deletion:
    """One pod to be deleted, and how that goes."""

    delete: Delete
    pod: Pod
    since: datetime
    together: _Batch
    marked_at: float = NEVER
    failures: int = 0
    told: str = ""

    @property
    def pause(self) -> float:
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10))


class Deleter:
    """Deletions under way. `may_act` is asked before each step; `said` hears what is refused.

    `said` gets the delete, the pod and what the server said, or nothing once that is over.
    """

    def __init__(
        self,
        client: DeleteClient,
        said: Callable[[Delete, Pod, str], None],
        *,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client, self._said, self._may_act = client, said, may_act
        self._ready: asyncio.Queue[_Deletion] = asyncio.Queue()
        self._open: dict[str, _Deletion] = {}
        self._refused = WarnOnce(log)

    def submit(self, delete: Delete) -> None:
        """Delete all these pods, as soon as may be; what is under way already is not begun anew."""
        since = takedown.decided_at(delete, datetime.now(UTC))
        pods = {p.metadata.uid: p for p in delete.pods if p.metadata.uid not in self._open}
        for pod in delete.pods:
            known = self._open.get(pod.metadata.uid)
            if known is not None and known.told:
                self._said(delete, pod, known.told)  # whoever waits for it from now on hears it too
        together = _Batch(set(pods))
        for uid, pod in pods.items():
            doomed = self._open[uid] = _Deletion(delete, pod, since, together)
            self._ready.put_nowait(doomed)

    async def run(self) -> None:
        """Delete until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(IN_FLIGHT):
                    group.create_task(self._work(self._ready))
        finally:
            self._ready = asyncio.Queue()
            for doomed in self._open.values():
                doomed.together.marked.clear()
                self._ready.put_nowait(doomed)

    async def _work(self, ready: asyncio.Queue[_Deletion]) -> None:
        """One at a time; who has failed waits outside, so that others get their turn."""
        clock = asyncio.get_running_loop()
        while True:
            doomed = await ready.get()
            pause = await self._advance(doomed) if self._may_act() else LONGEST_PAUSE
            together = doomed.together
            if pause is not None:
                clock.call_later(pause, ready.put_nowait, doomed)
            elif together.unmarked:
                together.marked.append(doomed)
            if not together.unmarked:
                for other in together.marked:
                    ready.put_nowait(other)
                together.marked.clear()

    async def _advance(self, doomed: _Deletion) -> float | None:
        """Do what is next; how long to wait before that is tried again, None if it is done."""
        uid, unmarked = doomed.pod.metadata.uid, doomed.together.unmarked
        try:
            await self._mark(doomed)
            if uid in unmarked:
                unmarked.remove(uid)
                doomed.failures = 0  # the deletion has a patience of its own
            if not unmarked:
                await self._delete(doomed)
        except MusterError as error:
            return self._failed(doomed, error)
        return None

    async def _mark(self, doomed: _Deletion) -> None:
        """Mark a pod, unless it is fresh; raises only what may be over soon."""
        now, pod = asyncio.get_running_loop().time(), doomed.pod
        if now - doomed.marked_at < MARK_AGAIN or pod.metadata.deletion_timestamp is not None:
            return
        body = takedown.mark_patch(doomed.delete, pod, doomed.since, datetime.now(UTC))
        try:
            await self._client.patch(
                PODS, pod.metadata.key, body, patch_type=PatchType.STRATEGIC, subresource="status"
            )
        except (NotFound, Conflict):
            pass
        except ApiError as error:
            if _is_temporary(error) and doomed.failures < QUIET_FAILURES:
                raise
            self._refused.warn(error)
        doomed.marked_at = now

    async def _delete(self, doomed: _Deletion) -> None:
        """Delete a pod, or find that it is gone; a conflict mostly means that another is there."""
        metadata = doomed.pod.metadata
        try:
            await self._client.delete(PODS, metadata.key, uid=metadata.uid)
        except NotFound:
            pass
        except Conflict:
            if await self._is_there(doomed.pod):
                raise
        del self._open[metadata.uid]
        if doomed.told:
            self._said(doomed.delete, doomed.pod, "")

    async def _is_there(self, pod: Pod) -> bool:
        try:
            found = await self._client.get(PODS, pod.metadata.key)
        except NotFound:
            return False
        same = found.metadata.uid == pod.metadata.uid
        return same and found.metadata.deletion_timestamp is None

    def _failed(self, doomed: _Deletion, error: MusterError) -> float:
        doomed.failures += 1
        pause = doomed.pause
        if isinstance(error, ApiError) and error.retry_after:
            pause = max(pause, error.retry_after)
        passing = _is_temporary(error) and doomed.failures <= QUIET_FAILURES
        log.debug("%s: tried again in %.1f s: %s", doomed.pod.metadata.key, pause, error)
        if not passing and doomed.told != str(error):
            self._refused.warn(error)
            doomed.told = str(error)
            self._said(doomed.delete, doomed.pod, doomed.told)
        return pause


def _is_temporary(error: MusterError) -> bool:
    """Whether it is no refusal, but something that may be over in a moment."""
    return not isinstance(error, ApiError) or isinstance(error, TEMPORARY_ERRORS)
