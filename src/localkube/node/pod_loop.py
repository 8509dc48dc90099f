"""THE POD LOOP: pods bound to our nodes -> processes -> status.

A key is a pod's name. Each visit reads the pod from the informer and its record from disk, carries
out the actions that `decide` returns, and writes the status if it changed. A restarted daemon needs
nothing that is only in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubekit.control.loop import RequeueAfter
from kubekit.errors import describe
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.core import InvalidImageName
from kubekit.objects.kinds import PODS
from kubekit.objects.quantity import MAX_INT64, InvalidQuantity
from kubekit.request_errors import Conflict, NotFound
from localkube.node.descriptors import OutOfDescriptors
from localkube.node.log_archive import LogOwners, job_pod
from localkube.node.network.pod_network import OutOfAddresses
from localkube.node.pod import PODS_TO_RUN, MissingReference, Pod
from localkube.node.pod_decision import (
    Close,
    Decision,
    Open,
    Remove,
    Start,
    Stop,
    decide,
    restart_delay,
)
from localkube.node.pod_status import WaitingReason, discarded_message, pod_status
from localkube.node.runtime.pod_records import LOST, PodRecord
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.objects.meta import Key, Raw
    from kubekit.watch.informer import Informer
    from localkube.node.container_lifecycle import ContainerStarter, ContainerStopper
    from localkube.node.pod_decision import Action
    from localkube.node.pod_events import PodEvents
    from localkube.node.probes import Prober
    from localkube.node.runtime.container_runtime import Runtime

_MAX_ROUNDS = 6
"""How often one visit decides and acts, before other pods get their turn."""
_RETRY = 2.0
"""Seconds until an action that failed is tried again."""
_OUT_OF_ADDRESSES = "OutOfAddresses"
_ADDRESS_RETRY = 15.0
"""Seconds until a pod asks for an address again: thousands of pods may wait for one."""


@dataclass
class _KnownPod:
    """A pod that has a record on this machine."""

    key: Key
    job: str = ""
    """The UID of the job that its record names as the owner of its logs."""
    written: Raw = field(default_factory=dict)
    """The status that we wrote last."""
    answer: Pod | None = None
    """The pod in the API's response to that write."""


@dataclass
class PodLoop:
    nodes: set[str]
    client: Client
    runtime: Runtime
    pods: Informer[Pod]
    starter: ContainerStarter
    prober: Prober
    stopper: ContainerStopper
    events: PodEvents
    clock: Callable[[], datetime]
    logs: LogOwners
    # By uid, and the uids of each name: a replacement may come before its predecessor is removed.
    _known: dict[str, _KnownPod] = field(default_factory=dict, init=False)
    _uids: dict[Key, set[str]] = field(default_factory=dict, init=False)

    def remember(self, key: Key, uid: str) -> None:
        """There is a record of this pod on disk."""
        if uid not in self._known:
            self._known[uid] = _KnownPod(key)
            self._uids.setdefault(key, set()).add(uid)

    def key_of(self, uid: str) -> Key | None:
        known = self._known.get(uid)
        return None if known is None else known.key

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        pod = self._current(key)
        left = await self._forget_others(key, pod)
        if pod is None:
            return RequeueAfter(_RETRY) if left else None
        self.remember(key, pod.metadata.uid)
        decision, record, waiting = await self._act_until_settled(pod)
        # The last status is written before the pod is removed, so that watchers see its exit codes.
        await self._write_status(pod, record, waiting)
        if Remove() in decision.actions:
            await self._remove(pod)
            return None
        if waiting or left:
            full = any(reason.reason == _OUT_OF_ADDRESSES for reason in waiting.values())
            return RequeueAfter(_ADDRESS_RETRY if full and not left else _RETRY)
        seconds = await self._renew(pod, decision.revisit_in)
        return None if seconds is None else RequeueAfter(max(seconds, 0.0))

    async def _renew(self, pod: Pod, revisit_in: float | None) -> float | None:
        """Renew the tokens and volumes of a running pod; seconds until the next visit."""
        if pod.finished or pod.terminating:
            return revisit_in
        due = await self.starter.renew(pod)
        waits = [seconds for seconds in (revisit_in, due) if seconds is not None]
        return min(waits, default=None)

    def _current(self, key: Key) -> Pod | None:
        """The pod if it is on one of our nodes.

        The response to our last write is used if the watch has not delivered it yet: a decision on
        the older pod would repeat the write.
        """
        pod = self.pods.get(key)
        if pod is None or pod.spec.node_name not in self.nodes:
            return None
        known = self._known.get(pod.metadata.uid)
        answer = None if known is None else known.answer
        return answer if answer is not None and _version(answer) > _version(pod) else pod

    async def _forget_others(self, key: Key, pod: Pod | None) -> bool:
        """Remove pods that had this name and do not exist in the API any more.

        Whether files of one are left, which the next visit tries to delete again.
        """
        for uid in self._uids.get(key, set()) - ({pod.metadata.uid} if pod else set()):
            self.prober.forget(uid)
            self.stopper.forget(uid)
            self.starter.forget(uid)
            if await self.runtime.forget(uid):
                self._uids[key].discard(uid)
                self._known.pop(uid, None)
        if not self._uids.get(key):
            self._uids.pop(key, None)
        return bool(self._uids.get(key, set()) - ({pod.metadata.uid} if pod else set()))

    def _read(self, pod: Pod) -> PodRecord:
        """The pod's record, with the health that its probes report."""
        return self.prober.with_health(pod, self.runtime.records.read(pod.metadata.uid))

    async def _act_until_settled(
        self, pod: Pod
    ) -> tuple[Decision, PodRecord, dict[str, WaitingReason]]:
        """Act until no action is left or one fails; returns why containers wait.

        The record returned is the one for which no action was left: a container that ends after
        that ends the pod in the next pass, which also closes the pod.
        """
        decision = Decision()
        for _ in range(_MAX_ROUNDS):
            record = self._read(pod)
            decision = decide(pod, record, self.clock())
            actions = [action for action in decision.actions if not isinstance(action, Remove)]
            if not actions:
                return decision, record, {}
            waiting: dict[str, WaitingReason] = {}
            for action in actions:
                await self._try(pod, action, waiting)
            # A container takes time to stop: its exit wakes the loop again.
            if waiting or any(isinstance(action, Stop) for action in actions):
                return decision, self._read(pod), waiting
        return decision, self._read(pod), {}

    async def _try(self, pod: Pod, action: Action, waiting: dict[str, WaitingReason]) -> None:
        name = action.container.name if isinstance(action, Start) else ""
        try:
            await self._act(pod, action)
        except MissingReference as error:
            waiting[name] = WaitingReason("CreateContainerConfigError", str(error))
        except InvalidImageName as error:
            waiting[name] = WaitingReason("InvalidImageName", str(error))
        except OutOfDescriptors as error:
            waiting[name] = WaitingReason("OutOfDescriptors", str(error))
        except OutOfAddresses as error:
            waiting[name] = WaitingReason(_OUT_OF_ADDRESSES, str(error))
        except (CannotRun, InvalidQuantity, OSError, ValueError, OverflowError) as error:
            waiting[name] = WaitingReason("RunContainerError", describe(error))
        if name in waiting:
            self.events.record(pod, "Failed", waiting[name].message, warning=True)

    async def _act(self, pod: Pod, action: Action) -> None:
        match action:
            case Open():
                async with self.runtime.descriptors.for_start():
                    await self.starter.open(pod)
            case Start():
                async with self.runtime.descriptors.for_start():
                    await self.starter.start(pod, action.container, action.number)
            case Stop():
                self._record_stop(pod, action)
                await self.stopper.stop(pod, action.container, action.number, action.grace)
            case Close():
                await self._close(pod)
            case Remove():
                pass

    async def _close(self, pod: Pod) -> None:
        uid, records = pod.metadata.uid, self.runtime.records
        await self.runtime.close(uid)
        if pod.evicted:  # it used too much disk, and may stay in the API for long
            await asyncio.to_thread(records.discard_files, uid)
        if not pod.terminating:  # a user who deletes a pod wants its files gone
            await asyncio.to_thread(records.write_closed, uid)

    def _record_stop(self, pod: Pod, stop: Stop) -> None:
        restart = stop.reason and f"Container {stop.reason}, will be restarted"
        message = restart or f"Stopping container {stop.container.name}"
        once = f"{pod.metadata.uid}/{stop.number}"
        self.events.record(pod, "Killing", message, once=once)

    async def _write_status(
        self, pod: Pod, record: PodRecord, waiting: Mapping[str, WaitingReason]
    ) -> None:
        uid = pod.metadata.uid
        known = self._known[uid]
        # Its job is named in its record, so that its logs outlive it; a job may adopt a pod.
        owned = job_pod(pod, self.logs)
        if record.known and owned is not None and owned.job.uid != known.job:
            self.runtime.records.write_job_pod(uid, owned)
            known.job = owned.job.uid
        host = self.runtime.network.gateway
        status = pod_status(pod, record, waiting, host, self.clock())
        if not status or status == known.written:
            return
        self._record_failures(pod, record)
        if record.discarded:
            self.events.record(pod, "FilesDiscarded", discarded_message(record), warning=True)
        with contextlib.suppress(NotFound, Conflict):  # the name now belongs to another pod
            known.answer = await self.client.patch(
                PODS_TO_RUN,
                pod.metadata.key,
                {"metadata": {"uid": uid}, "status": status},
                subresource="status",
            )
            known.written = status

    def _record_failures(self, pod: Pod, record: PodRecord) -> None:
        for name, attempts in record.containers.items():
            last = attempts[-1]
            if last.reason in ("StartError", LOST):
                message = f"container {name}: {last.message}"
                self.events.record(pod, "Failed", message, warning=True)
            elif not last.alive and last.exit_code and restart_delay(last, record):
                message = f"Back-off restarting failed container {name}"
                self.events.record(pod, "BackOff", message, warning=True)

    async def _remove(self, pod: Pod) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await self.client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid, grace=0)


def _version(pod: Pod) -> int:
    # Only because this is our own API server: its resource versions are increasing numbers.
    text = pod.metadata.resource_version
    return read_integer(text, most=MAX_INT64) or 0
