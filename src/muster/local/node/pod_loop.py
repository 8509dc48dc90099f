"""THE POD LOOP: pods bound to our nodes -> processes -> status.

One key is one pod's name. Each visit reads the pod from the informer and from disk, lets `decide`
say what to do, does it, and writes the status that `status` computes if it is not the last one.
Run by the agent through `control/loop.py`; nothing here is kept that a restart would miss.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster import errors
from muster.api.kinds import PODS
from muster.control.loop import RequeueAfter
from muster.errors import CannotRun, Conflict, MissingReference, NotFound
from muster.local.node.decide import Close, Decision, Open, Remove, Start, Stop, decide, pause
from muster.local.node.pod import PODS_TO_RUN
from muster.local.node.pod_status import WaitingReason, pod_status
from muster.local.node.runtime.pod_records import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from muster.api.meta import Key, Raw
    from muster.kube.client import Client
    from muster.kube.watch.informer import Informer
    from muster.local.node.container_start import ContainerStarter
    from muster.local.node.container_stop import ContainerStopper
    from muster.local.node.decide import Action
    from muster.local.node.events import EventRecorder
    from muster.local.node.pod import Pod
    from muster.local.node.probes.prober import Prober
    from muster.local.node.runtime.interface import Runtime
    from muster.local.node.runtime.pod_records import PodRecord

_MOST_ROUNDS = 6
_RETRY = 2.0


@dataclass(frozen=True)
class PodLoopParts:
    """What the loop works with."""

    client: Client
    runtime: Runtime
    pods: Informer[Pod]
    starter: ContainerStarter
    prober: Prober
    stopper: ContainerStopper
    recorder: EventRecorder
    clock: Callable[[], datetime]


class PodLoop:
    def __init__(self, parts: PodLoopParts, nodes: set[str]) -> None:
        self._parts = parts
        self._nodes = nodes
        self._uids: dict[Key, set[str]] = {}
        self._keys: dict[str, Key] = {}
        self._written: dict[str, Raw] = {}
        self._answered: dict[str, Pod] = {}

    def remember(self, key: Key, uid: str) -> None:
        """There is something on disk of that pod."""
        self._uids.setdefault(key, set()).add(uid)
        self._keys[uid] = key

    def key_of(self, uid: str) -> Key | None:
        return self._keys.get(uid)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        pod = self._current(key)
        await self._forget_others(key, pod)
        if pod is None:
            return None
        uid = pod.metadata.uid
        self.remember(key, uid)
        decision, troubles = await self._settle(pod)
        await self._write_status(pod, troubles)
        if Remove() in decision.actions:
            await self._remove(pod)
            return None
        again = _RETRY if troubles else await self._renew(pod, decision.again)
        return None if again is None else RequeueAfter(max(again, 0.0))

    async def _renew(self, pod: Pod, again: float | None) -> float | None:
        """Renew the tokens of a pod that goes on; when to look again."""
        if pod.finished or pod.metadata.deletion_timestamp is not None:
            return again
        due = await self._parts.starter.renew(pod)
        waits = [seconds for seconds in (again, due) if seconds is not None]
        return min(waits, default=None)

    def _current(self, key: Key) -> Pod | None:
        """The pod if it is ours; as our own last write left it, if the watch is behind that."""
        pod = self._parts.pods.get(key)
        if pod is None or pod.spec.node_name not in self._nodes:
            return None
        answered = self._answered.get(pod.metadata.uid)
        if answered is not None and _version(answered) > _version(pod):
            return answered
        return pod

    async def _forget_others(self, key: Key, pod: Pod | None) -> None:
        """Pods that had this name and are gone from the API."""
        for uid in list(self._uids.get(key, ())):
            if pod is None or uid != pod.metadata.uid:
                self._parts.prober.forget(uid)
                self._parts.stopper.forget(uid)
                self._parts.starter.forget(uid)
                await self._parts.runtime.forget(uid)
                self._written.pop(uid, None)
                self._answered.pop(uid, None)
                self._uids[key].discard(uid)
                self._keys.pop(uid, None)
        if not self._uids.get(key):
            self._uids.pop(key, None)

    def _read(self, pod: Pod) -> PodRecord:
        """The pod as this machine has it, with what its probes say."""
        return self._parts.prober.look(pod, self._parts.runtime.read(pod.metadata.uid))

    async def _settle(self, pod: Pod) -> tuple[Decision, dict[str, WaitingReason]]:
        """Act until there is nothing more to do now, or something is in the way."""
        decision = Decision()
        for _ in range(_MOST_ROUNDS):
            record = self._read(pod)
            decision = decide(pod, record, self._parts.clock())
            actions = [action for action in decision.actions if not isinstance(action, Remove)]
            if not actions:
                break
            troubles: dict[str, WaitingReason] = {}
            for action in actions:
                await self._try(pod, action, troubles)
            if troubles or any(isinstance(action, Stop) for action in actions):
                return decision, troubles
        return decision, {}

    async def _try(self, pod: Pod, action: Action, troubles: dict[str, WaitingReason]) -> None:
        where = action.container.name if isinstance(action, Start) else ""
        try:
            await self._act(pod, action)
        except MissingReference as error:
            troubles[where] = WaitingReason("CreateContainerConfigError", str(error))
        except (CannotRun, OSError) as error:
            troubles[where] = WaitingReason("RunContainerError", errors.describe(error))
        if where in troubles:
            self._parts.recorder.say(pod, "Failed", troubles[where].message, warning=True)

    async def _act(self, pod: Pod, action: Action) -> None:
        runtime, uid = self._parts.runtime, pod.metadata.uid
        match action:
            case Open():
                await self._parts.starter.open(pod)
            case Start():
                await self._parts.starter.start(pod, action.container, action.number)
            case Stop():
                self._say_why(pod, action)
                await self._parts.stopper.stop(pod, action.container, action.number, action.grace)
            case Close():
                await runtime.close(uid)
            case Remove():
                pass

    def _say_why(self, pod: Pod, stop: Stop) -> None:
        ending = stop.why and f"Container {stop.why}, will be restarted"
        said = ending or f"Stopping container {stop.container.name}"
        self._parts.recorder.say(pod, "Killing", said, once=f"{pod.metadata.uid}/{stop.number}")

    async def _write_status(self, pod: Pod, troubles: Mapping[str, WaitingReason]) -> None:
        uid = pod.metadata.uid
        record = self._read(pod)
        host = self._parts.runtime.host_address
        body = pod_status(pod, record, troubles, host, self._parts.clock())
        if not body or body == self._written.get(uid):
            return
        self._say_what_ended(pod, record)
        with contextlib.suppress(NotFound, Conflict):  # another pod has the name by now
            self._answered[uid] = await self._parts.client.patch(
                PODS_TO_RUN,
                pod.metadata.key,
                {"metadata": {"uid": uid}, "status": body},
                subresource="status",
            )
            self._written[uid] = body

    def _say_what_ended(self, pod: Pod, record: PodRecord) -> None:
        for name, attempts in record.containers.items():
            last = attempts[-1]
            if last.reason in ("StartError", LOST):
                message = f"container {name}: {last.message}"
                self._parts.recorder.say(pod, "Failed", message, warning=True)
            elif not last.alive and last.exit_code and pause(last, record):
                message = f"Back-off restarting failed container {name}"
                self._parts.recorder.say(pod, "BackOff", message, warning=True)

    async def _remove(self, pod: Pod) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await self._parts.client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid, grace=0)


def _version(pod: Pod) -> int:
    text = pod.metadata.resource_version
    return int(text) if text.isdigit() else 0
