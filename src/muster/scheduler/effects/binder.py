"""Sends the binds of plans, many at a time, and settles the result of each.

A bind cannot be undone, and its answer can be lost. So after every answer but a clear yes the pod
is read, and the room stays assumed until then. A Binding carries the pod's UID, so that the server
rejects it for a new pod of the same name, and the plan annotation, which the server merges into the
pod in the same write.

Promise: every bind handed in is settled exactly once. Binds that are open when the task is
cancelled, as when the lead is lost, are settled by reading when it runs again.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import MusterError
from kubekit.objects.kinds import PODS
from kubekit.request_errors import Conflict, NotFound, is_temporary
from muster.contract.gang import PLAN_ANNOTATION
from muster.scheduler.isolated_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod
    from kubekit.rights import MissingRight
    from muster.scheduler.decisions.decision import Bind

log = logging.getLogger(__name__)

PAUSES = (0.05, 0.2, 0.5, 1.0)
"""Seconds between attempts to bind or to read a pod; the last pause repeats."""
ATTEMPTS = 6


class BindOutcome(Enum):
    """The outcome of a bind."""

    BOUND = "bound"  # to our node; the watch will confirm it
    GONE = "gone"  # the pod is deleted, or another pod has its name
    ELSEWHERE = "elsewhere"  # another scheduler bound it; the watch will say where
    REFUSED = "refused"  # the server rejects the bind, or does not answer


class PendingBind(NamedTuple):
    """One bind that is to be sent."""

    bind: Bind
    pod: Pod
    node: str


class BindResult(NamedTuple):
    """One bind, and its outcome."""

    binding: PendingBind
    outcome: BindOutcome
    why: str = ""
    missing_right: MissingRight | None = None
    """Who lacks which right, if that is why."""


class Binder:
    """Binds in flight. `may_act` is called before each bind: false once the lease ran out."""

    def __init__(
        self,
        client: Client,
        settled: Callable[[BindResult], None],
        *,
        in_flight: int,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client, self._settled = client, settled
        self._in_flight, self._may_act = in_flight, may_act
        self._waiting: asyncio.Queue[PendingBind] = asyncio.Queue()
        self._open: dict[str, PendingBind] = {}
        self._left_over: set[str] = set()

    def submit(self, bind: Bind) -> None:
        """Send all binds of a plan as soon as possible."""
        for pod, node in bind.pairs:
            binding = self._open[pod.metadata.uid] = PendingBind(bind, pod, node)
            self._waiting.put_nowait(binding)

    @property
    def busy(self) -> bool:
        """Whether binds wait for a free worker."""
        return not self._waiting.empty()

    async def run(self) -> None:
        """Bind until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._in_flight):
                    group.create_task(self._work())
        finally:
            # The answers of binds in flight are lost with the tasks: the next `run` reads the pods.
            self._left_over, self._waiting = set(self._open), asyncio.Queue()
            for binding in self._open.values():
                self._waiting.put_nowait(binding)

    async def _work(self) -> None:
        while True:
            binding = await self._waiting.get()
            uid = binding.pod.metadata.uid
            settle = self._settle_left_over if uid in self._left_over else self._settle
            result = BindResult(binding, BindOutcome.REFUSED, "an error in the scheduler itself")
            with isolated("bind", binding.pod.metadata.key):
                result = await settle(binding)
            self._open.pop(uid, None)
            self._left_over.discard(uid)
            self._settled(result)

    async def _settle_left_over(self, binding: PendingBind) -> BindResult:
        """Read what became of a bind of the last term: it was decided too long ago to be sent."""
        outcome = await self._look(binding) or BindOutcome.REFUSED
        return BindResult(binding, outcome, "another process may have led in between")

    async def _settle(self, binding: PendingBind) -> BindResult:
        """Bind; after an unclear answer read the pod, and bind again if it is not bound."""
        why, missing_right = "this process no longer leads", None
        for attempt in range(ATTEMPTS):
            if not self._may_act():
                break
            try:
                await self._bind(binding)
            except MusterError as error:
                why = str(error)
                missing_right = error.missing_right
                if not (is_temporary(error) or isinstance(error, NotFound | Conflict)):
                    break
                log.info("%s: bind unclear: %s", binding.pod.metadata.key, error)
                outcome = await self._look(binding)
                if outcome is not None:
                    return BindResult(binding, outcome, why)
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            else:
                return BindResult(binding, BindOutcome.BOUND)
        return BindResult(binding, BindOutcome.REFUSED, why, missing_right)

    async def _bind(self, binding: PendingBind) -> None:
        metadata = binding.pod.metadata
        await self._client.bind(
            metadata.key,
            uid=metadata.uid,
            node=binding.node,
            annotations={PLAN_ANNOTATION: binding.bind.annotation},
        )

    async def _look(self, binding: PendingBind) -> BindOutcome | None:
        """Read the pod until the server answers; None if the pod is not bound (yet)."""
        attempt = 0
        while True:  # no last attempt: until the server answers, the room may be taken
            try:
                pod = await self._client.get(PODS, binding.pod.metadata.key)
            except NotFound:
                return BindOutcome.GONE
            except MusterError as error:
                if not is_temporary(error):
                    log.warning("%s: cannot be read: %s", binding.pod.metadata.key, error)
                    return BindOutcome.REFUSED
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1
            else:
                return _compare(pod, binding)


def _compare(pod: Pod, binding: PendingBind) -> BindOutcome | None:
    if pod.metadata.uid != binding.pod.metadata.uid:
        return BindOutcome.GONE
    if not pod.spec.node_name:
        return None
    return BindOutcome.BOUND if pod.spec.node_name == binding.node else BindOutcome.ELSEWHERE
