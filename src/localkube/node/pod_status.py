"""A pod's status, computed from its record on this machine: pure.

Conditions written by others (the scheduler's PodScheduled) stay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec import to_builtins

from kubekit.objects.conditions import FILES_DISCARDED, disruption_condition
from kubekit.objects.meta import Condition, Raw, find_condition, timestamp
from localkube.node import pod_decision
from localkube.node.machine import stopped_pods
from localkube.node.pod import Container, Pod, is_sidecar_container
from localkube.node.runtime.pod_records import LOST, Attempt, PodRecord, State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


_NOT_IN_PATH = re.compile(r'cannot run "[^/"]+": No such file or directory')
_PATH_HINT = (
    "this pod does not have your PATH: write an absolute path, set PATH in its env, "
    "or use `arena submit`"
)
_REBOOTED = "The machine was restarted while the pod ran."


def _api_time(time: datetime | None) -> str | None:
    return None if time is None else timestamp(time)


class WaitingReason(NamedTuple):
    """Why a container is not started, as its `state.waiting` shows it."""

    reason: str
    message: str


def pod_status(
    pod: Pod, record: PodRecord, waiting: Mapping[str, WaitingReason], host_ip: str, now: datetime
) -> Raw:
    """The pod's status; empty if nothing changes.

    `waiting` says why a container cannot start, by its name, or "" for the whole pod.
    """
    containers = _ContainerStatuses(pod, record, waiting, now)
    if pod.finished:
        return _late_status(pod, record, containers, now)
    phase, reason, message = _phase(pod, record, now)
    ready = record.open and phase == "Running"
    # In a ready pod, sidecars run too.
    sidecars = filter(is_sidecar_container, pod.spec.init_containers)
    ready = ready and all(_ready(record, c) for c in (*sidecars, *pod.spec.containers))
    disruption = _disruption(pod, record) if phase == "Failed" and not reason else ""
    if disruption:
        reason, message = "Terminated", disruption
    body: Raw = {
        "phase": phase,
        "hostIP": host_ip,
        "startTime": timestamp(pod.status.start_time or now),
        "conditions": _conditions(pod, record, phase, disruption, ready=ready, now=now),
        "initContainerStatuses": [containers.status(c) for c in pod.spec.init_containers],
        "containerStatuses": containers.ordinary(),
    }
    if pod.spec.ephemeral_containers:
        body["ephemeralContainerStatuses"] = containers.ephemeral()
    if record.address:
        body |= {"podIP": record.address, "podIPs": [{"ip": record.address}]}
    if reason or pod.status.reason:  # null removes the reason of an earlier write
        body |= {"reason": reason or None, "message": message or None}
    return body


def _late_status(pod: Pod, record: PodRecord, containers: _ContainerStatuses, now: datetime) -> Raw:
    """The part of the status that may change after the pod was declared finished."""
    body: Raw = {}
    # Containers that still ran at that time end later.
    statuses = (*pod.status.container_statuses, *pod.status.ephemeral_container_statuses)
    if record.known and not all(c.state.terminated is not None for c in statuses):
        body["containerStatuses"] = containers.ordinary()
        if pod.spec.ephemeral_containers:
            body["ephemeralContainerStatuses"] = containers.ephemeral()
    # The pod is closed afterwards, and only then are its files known.
    if record.discarded and find_condition(pod.status.conditions, FILES_DISCARDED) is None:
        others = [_present(condition) for condition in pod.status.conditions]
        body["conditions"] = [*others, _files_discarded(pod, record, now)]
    return body


def _phase(pod: Pod, record: PodRecord, now: datetime) -> tuple[str, str, str]:
    left = pod_decision.deadline_in(pod, now)
    if left is not None and left <= 0:
        message = "Pod was active on the node longer than the specified deadline"
        return "Failed", "DeadlineExceeded", message
    end = pod_decision.outcome(pod, record)
    if end is not None:
        return ("Failed" if _disruption(pod, record) else end), "", ""
    return ("Running" if _any_started(pod, record) else "Pending"), "", ""


def _disruption(pod: Pod, record: PodRecord) -> str:
    """How this machine ended the pod; empty if the pod ended by itself."""
    reasons = [attempts[-1].reason for attempts in record.containers.values()]
    if record.rebooted and LOST in reasons:
        return _REBOOTED
    stopped = record.stopped and not stopped_pods.restarts_in_place(pod)
    return stopped_pods.STOPPED_MESSAGE if stopped else ""


def _any_started(pod: Pod, record: PodRecord) -> bool:
    attempts = [record.last(container.name) for container in pod.spec.containers]
    # A container that starts again has started before: the pod stays Running.
    return any(a.state is not State.STARTING or a.number > 0 for a in attempts if a is not None)


def _ready(record: PodRecord, container: Container) -> bool:
    attempt = record.last(container.name)
    return attempt is not None and attempt.ready


@dataclass(frozen=True)
class _ContainerStatuses:
    """The `containerStatuses` of one pod."""

    pod: Pod
    record: PodRecord
    waiting: Mapping[str, WaitingReason]
    now: datetime

    def ordinary(self) -> list[Raw]:
        return [self.status(container) for container in self.pod.spec.containers]

    def ephemeral(self) -> list[Raw]:
        """An ephemeral container is never ready: the pod does not depend on it."""
        rows = [self.status(container) for container in self.pod.spec.ephemeral_containers]
        return [{k: v for k, v in row.items() if k != "started"} | {"ready": False} for row in rows]

    def status(self, container: Container) -> Raw:
        attempts = self.record.containers.get(container.name, ())
        last = attempts[-1] if attempts else None
        before = attempts[-2] if len(attempts) > 1 else None
        # An init container is ready when it has succeeded.
        passed = self._runs_once(container) and last is not None and not last.alive
        state = self._state(container)
        if last is not None and not last.alive and "waiting" in state:
            before = last  # `state` shows why it waits, so `lastState` must show how it ended
        return {
            "name": container.name,
            "image": container.image,
            "imageID": f"host/{container.image}",
            "containerID": self._id(container, last) if last else "",
            "restartCount": last.number if last else 0,
            "ready": last is not None and (last.ready or (passed and last.exit_code == 0)),
            "started": last is not None and last.started,
            "state": state,
            "lastState": {"terminated": self._terminated(container, before)} if before else {},
        }

    def _state(self, container: Container) -> Raw:
        last = self.record.last(container.name)
        reason = self.waiting.get(container.name) or self.waiting.get("")
        if last is not None and last.state is State.RUNNING:
            return {"running": {"startedAt": _api_time(last.started_at)}}
        if last is not None and not last.alive:
            over = self.pod.finished or self.pod.terminating or not self._restarts(container, last)
            left = pod_decision.restart_in(last, self.record, self.now)
            if over or (left <= 0 and reason is None):
                return {"terminated": self._terminated(container, last)}
            if left > 0:
                seconds = pod_decision.restart_delay(last, self.record)
                message = f"back-off {seconds:g}s restarting failed container={container.name}"
                return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        if reason is not None:
            return {"waiting": reason._asdict()}
        # As the kubelet says it: kubectl shows `Init:0/1` for it, and other reasons by name.
        plain = not self.pod.spec.init_containers
        return {"waiting": {"reason": "ContainerCreating" if plain else "PodInitializing"}}

    def _restarts(self, container: Container, last: Attempt) -> bool:
        if container in self.pod.spec.ephemeral_containers:
            return False
        if self._runs_once(container):
            return last.exit_code != 0 and self.pod.spec.restart_policy != "Never"
        return is_sidecar_container(container) or pod_decision.may_restart(self.pod, last)

    def _runs_once(self, container: Container) -> bool:
        """Whether this is an init container that must succeed before the next one starts."""
        return container in self.pod.spec.init_containers and not is_sidecar_container(container)

    def _terminated(self, container: Container, attempt: Attempt) -> Raw:
        return {
            "exitCode": attempt.exit_code,
            "reason": attempt.reason,
            "startedAt": _api_time(attempt.started_at),
            "finishedAt": _api_time(attempt.finished_at),
            "containerID": self._id(container, attempt),
            **({"signal": attempt.signal} if attempt.signal else {}),
            **({"message": message} if (message := _message(container, attempt)) else {}),
        }

    def _id(self, container: Container, attempt: Attempt) -> str:
        return f"muster://{self.record.uid}/{container.name}/{attempt.number}"


def _message(container: Container, attempt: Attempt) -> str:
    """The message of an attempt; about a program that is not in the node's PATH, with a hint."""
    if not _NOT_IN_PATH.fullmatch(attempt.message) or any(v.name == "PATH" for v in container.env):
        return attempt.message
    return f"{attempt.message}; {_PATH_HINT}"


def _conditions(
    pod: Pod, record: PodRecord, phase: str, disruption: str, *, ready: bool, now: datetime
) -> list[Raw]:
    initialized = pod_decision.initialized(pod, record) or phase == "Succeeded"
    unready = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    own_conditions = [
        _condition(pod, "PodReadyToStartContainers", record.open, "", now),
        _condition(pod, "Initialized", initialized, "ContainersNotInitialized", now),
        _condition(pod, "Ready", ready, unready, now),
        _condition(pod, "ContainersReady", ready, unready, now),
    ]
    if disruption:  # like a kubelet that shuts down: the pod is replaced whatever its policy
        own_conditions.append(disruption_condition("TerminationByKubelet", disruption, now))
    if record.discarded:
        own_conditions.append(_files_discarded(pod, record, now))
    known = {condition["type"] for condition in own_conditions}
    # A merge patch replaces the whole list: the conditions of others must be in it.
    others = [_present(c) for c in pod.status.conditions if c.type not in known]
    return own_conditions + others


def _present(condition: Condition) -> Raw:
    """A condition of another writer, without its empty fields."""
    return {name: value for name, value in to_builtins(condition).items() if value}


def _files_discarded(pod: Pod, record: PodRecord, now: datetime) -> Raw:
    condition = _condition(pod, FILES_DISCARDED, True, "", now)
    return condition | {"message": discarded_message(record)}


def discarded_message(record: PodRecord) -> str:
    return f"files in private directories are discarded with the pod: {record.discarded}"


def _condition(pod: Pod, type_: str, value: bool, reason_if_false: str, now: datetime) -> Raw:
    before = find_condition(pod.status.conditions, type_)
    status = "True" if value else "False"
    since = before.last_transition_time if before is not None and before.status == status else None
    body = {"type": type_, "status": status, "lastTransitionTime": timestamp(since or now)}
    return body | ({"reason": reason_if_false} if reason_if_false and not value else {})
