"""Sends the binds of plans, many at a time, and settles the result of each.

A bind cannot be undone and its answer can be lost. So whatever is not a clear yes is settled by
reading the pod, and the room stays assumed until then. A Binding carries the pod's UID, so that a
new pod of the same name is refused, and the plan mark, which the server merges into the pod in the
same write.

Promise: every bind handed in is settled exactly once. Binds that are open when the task is
cancelled, as when the lead is lost, are settled by reading when it runs again.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from muster.api.gang_dialects import PLAN_ANNOTATION
from muster.api.kinds import PODS
from muster.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from muster.api.core import Pod
    from muster.api.kinds import Kind
    from muster.api.meta import Key
    from muster.scheduler.decisions.decision import Bind

log = logging.getLogger(__name__)

PAUSES = (0.05, 0.2, 0.5, 1.0)
"""Seconds between attempts to learn or to repeat what is unknown; the last one goes on."""
ATTEMPTS = 6


class BindOutcome(Enum):
    """What became of a bind."""

    BOUND = "bound"  # to our node; the watch will confirm it
    GONE = "gone"  # the pod is not there any more, or another has its name
    ELSEWHERE = "elsewhere"  # somebody else bound it; the watch will say where
    REFUSED = "refused"  # the server says no, or cannot be asked


class PendingBind(NamedTuple):
    """One bind to be done."""

    bind: Bind
    pod: Pod
    node: str


class BindResult(NamedTuple):
    """One bind, and what became of it."""

    binding: PendingBind
    outcome: BindOutcome
    why: str = ""


class BindClient(Protocol):
    """What is needed of a client."""

    async def bind(
        self, pod: Key, *, uid: str, node: str, annotations: Mapping[str, str]
    ) -> None: ...

    async def get(self, kind: Kind[Pod], key: Key, /) -> Pod: ...


class Binder:
    """Binds in flight. `may_act` is asked before each call: a lease that ran out forbids it."""

    def __init__(
        self,
        client: BindClient,
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
        """Do all binds of a plan, as soon as may be."""
        for pod, node in bind.pairs:
            binding = self._open[pod.metadata.uid] = PendingBind(bind, pod, node)
            self._waiting.put_nowait(binding)

    @property
    def busy(self) -> bool:
        """Whether binds wait for others to be done."""
        return not self._waiting.empty()

    async def run(self) -> None:
        """Bind until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._in_flight):
                    group.create_task(self._work())
        finally:
            self._left_over, self._waiting = set(self._open), asyncio.Queue()
            for binding in self._open.values():
                self._waiting.put_nowait(binding)

    async def _work(self) -> None:
        while True:
            binding = await self._waiting.get()
            uid = binding.pod.metadata.uid
            settle = self._find_out if uid in self._left_over else self._settle
            settled = await settle(binding)
            self._open.pop(uid, None)
            self._left_over.discard(uid)
            self._settled(settled)

    async def _find_out(self, binding: PendingBind) -> BindResult:
        """What became of a bind that was left over: decided too long ago to be done now."""
        outcome = await self._look(binding)
        return BindResult(
            binding, outcome or BindOutcome.REFUSED, "this process did not lead meanwhile"
        )

    async def _settle(self, binding: PendingBind) -> BindResult:
        """Bind, and where the answer is unclear read and bind again, until it is settled."""
        why = "this process no longer leads"
        for attempt in range(ATTEMPTS):
            if not self._may_act():
                break
            try:
                await self._bind(binding)
            except (NotFound, Conflict, ServerError, TooManyRequests, Unreachable) as error:
                why = str(error)
                log.info("%s: bind unclear: %s", binding.pod.metadata.key, error)
                outcome = await self._look(binding)
                if outcome is not None:
                    return BindResult(binding, outcome, why)
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            except ApiError as error:
                return BindResult(binding, BindOutcome.REFUSED, str(error))
            else:
                return BindResult(binding, BindOutcome.BOUND)
        return BindResult(binding, BindOutcome.REFUSED, why)

    async def _bind(self, binding: PendingBind) -> None:
        metadata = binding.pod.metadata
        await self._client.bind(
            metadata.key,
            uid=metadata.uid,
            node=binding.node,
            annotations={PLAN_ANNOTATION: binding.bind.annotation},
        )

    async def _look(self, binding: PendingBind) -> BindOutcome | None:
        """Read the pod until there is an answer; None if it is not bound (yet)."""
        attempt = 0
        while True:
            try:
                pod = await self._client.get(PODS, binding.pod.metadata.key)
            except NotFound:
                return BindOutcome.GONE
            except (ServerError, TooManyRequests, Unreachable):
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1
            except ApiError as error:
                log.warning("%s: cannot be read: %s", binding.pod.metadata.key, error)
                return BindOutcome.REFUSED
            else:
                return _compare(pod, binding)


def _compare(pod: Pod, binding: PendingBind) -> BindOutcome | None:
    if pod.metadata.uid != binding.pod.metadata.uid:
        return BindOutcome.GONE
    if not pod.spec.node_name:
        return None
    return BindOutcome.BOUND if pod.spec.node_name == binding.node else BindOutcome.ELSEWHERE
