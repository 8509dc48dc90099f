"""A pod's status, computed from its record on this machine: pure.

Conditions written by others (the scheduler's PodScheduled) are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.api.conditions import disruption_condition
from muster.api.meta import find_condition, timestamp
from muster.local.node import decide
from muster.local.node.machine import shutdown
from muster.local.node.pod import is_sidecar_container
from muster.local.node.runtime.pod_records import LOST, State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.local.node.pod import Container, Pod
    from muster.local.node.runtime.pod_records import Attempt, PodRecord

_REBOOTED = "The machine was restarted while the pod ran."


def api_time(time: datetime | None) -> str | None:
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
    if pod.finished:
        return _after_the_end(pod, record, now)
    phase, reason, message = _phase(pod, record, now)
    ready = record.open and phase == "Running"
    ready = ready and all(_ready(record, c) for c in _long_running(pod))
    disruption = _disruption(pod, record) if phase == "Failed" and not reason else ""
    if disruption:
        reason, message = "Terminated", disruption
    body: Raw = {
        "phase": phase,
        "hostIP": host_ip,
        "startTime": api_time(pod.status.start_time or now),
        "conditions": _conditions(pod, record, phase, disruption, ready=ready, now=now),
        "initContainerStatuses": _containers(pod.spec.init_containers, pod, record, waiting, now),
        "containerStatuses": _containers(pod.spec.containers, pod, record, waiting, now),
    }
    if record.address:
        body |= {"podIP": record.address, "podIPs": [{"ip": record.address}]}
    if reason or pod.status.reason:
        body |= {"reason": reason or None, "message": message or None}
    return body


def _after_the_end(pod: Pod, record: PodRecord, now: datetime) -> Raw:
    """The exit of containers that still ran when the pod was declared finished."""
    complete = all(c.state.terminated is not None for c in pod.status.container_statuses)
    if complete or not record.known:
        return {}
    return {"containerStatuses": _containers(pod.spec.containers, pod, record, {}, now)}


def _phase(pod: Pod, record: PodRecord, now: datetime) -> tuple[str, str, str]:
    left = decide.deadline_in(pod, now)
    if left is not None and left <= 0:
        return "Failed", "DeadlineExceeded", "Pod was active on the node longer than the deadline"
    end = decide.outcome(pod, record)
    if end is not None:
        return ("Failed" if _disruption(pod, record) else end), "", ""
    started = any(record.last(container.name) for container in pod.spec.containers)
    return ("Running" if started and _any_started(pod, record) else "Pending"), "", ""


def _disruption(pod: Pod, record: PodRecord) -> str:
    """How this machine ended the pod; empty if the pod ended by itself."""
    reasons = [attempts[-1].reason for attempts in record.containers.values()]
    if record.rebooted and LOST in reasons:
        return _REBOOTED
    return (
        shutdown.STOPPED_MESSAGE if record.stopped and not shutdown.restarts_in_place(pod) else ""
    )


def _any_started(pod: Pod, record: PodRecord) -> bool:
    attempts = [record.last(container.name) for container in pod.spec.containers]
    return any(
        attempt is not None and (attempt.state is not State.STARTING or attempt.number > 0)
        for attempt in attempts
    )


def _ready(record: PodRecord, container: Container) -> bool:
    attempt = record.last(container.name)
    return attempt is not None and attempt.ready


def _long_running(pod: Pod) -> tuple[Container, ...]:
    """The containers that run in a ready pod: sidecars are among them."""
    return (*filter(is_sidecar_container, pod.spec.init_containers), *pod.spec.containers)


def _containers(
    containers: tuple[Container, ...],
    pod: Pod,
    record: PodRecord,
    waiting: Mapping[str, WaitingReason],
    now: datetime,
) -> list[Raw]:
    return [_container(c, pod, record, waiting, now) for c in containers]


def _container(
    container: Container,
    pod: Pod,
    record: PodRecord,
    waiting: Mapping[str, WaitingReason],
    now: datetime,
) -> Raw:
    attempts = record.containers.get(container.name, ())
    last = attempts[-1] if attempts else None
    before = attempts[-2] if len(attempts) > 1 else None
    init = container in pod.spec.init_containers
    passed = init and not is_sidecar_container(container) and last is not None and not last.alive
    state = _state(container, pod, record, waiting, now)
    if last is not None and not last.alive and "waiting" in state:
        before = last
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"host/{container.image}",
        "containerID": f"muster://{record.uid}/{container.name}/{last.number}" if last else "",
        "restartCount": last.number if last else 0,
        "ready": last is not None and (last.ready or (passed and last.exit_code == 0)),
        "started": last is not None and last.started,
        "state": state,
        "lastState": {"terminated": _terminated(before, record, container)} if before else {},
    }


def _state(
    container: Container,
    pod: Pod,
    record: PodRecord,
    waiting: Mapping[str, WaitingReason],
    now: datetime,
) -> Raw:
    last = record.last(container.name)
    reason = waiting.get(container.name) or waiting.get("")
    if last is not None and last.state is State.RUNNING:
        return {"running": {"startedAt": api_time(last.started_at)}}
    if last is not None and not last.alive:
        over = pod.finished or pod.terminating or not _restarts(container, pod, last)
        left = decide.restart_in(last, record, now)
        if over or (left <= 0 and reason is None):
            return {"terminated": _terminated(last, record, container)}
        if left > 0:
            seconds = decide.restart_delay(last, record)
            message = f"back-off {seconds:g}s restarting failed container={container.name}"
            return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    if reason is not None:
        return {"waiting": reason._asdict()}
    ready = container in pod.spec.init_containers or decide.initialized(pod, record)
    return {"waiting": {"reason": "ContainerCreating" if ready else "PodInitializing"}}


def _restarts(container: Container, pod: Pod, last: Attempt) -> bool:
    if container in pod.spec.init_containers and not is_sidecar_container(container):
        return last.exit_code != 0 and pod.spec.restart_policy != "Never"
    return is_sidecar_container(container) or decide.may_restart(pod, last)


def _terminated(attempt: Attempt, record: PodRecord, container: Container) -> Raw:
    body: Raw = {
        "exitCode": attempt.exit_code,
        "reason": attempt.reason,
        "startedAt": api_time(attempt.started_at),
        "finishedAt": api_time(attempt.finished_at),
        "containerID": f"muster://{record.uid}/{container.name}/{attempt.number}",
    }
    if attempt.signal:
        body["signal"] = attempt.signal
    if attempt.message:
        body["message"] = attempt.message
    return body


def _conditions(
    pod: Pod, record: PodRecord, phase: str, disruption: str, *, ready: bool, now: datetime
) -> list[Raw]:
    initialized = decide.initialized(pod, record) or phase == "Succeeded"
    unready = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    ours = [
        _condition(pod, "PodReadyToStartContainers", record.open, "", now),
        _condition(pod, "Initialized", initialized, "ContainersNotInitialized", now),
        _condition(pod, "Ready", ready, unready, now),
        _condition(pod, "ContainersReady", ready, unready, now),
    ]
    if disruption:  # like a kubelet that shuts down: the pod is replaced whatever its policy
        ours.append(disruption_condition("TerminationByKubelet", disruption, now))
    known = {condition["type"] for condition in ours}
    others = [
        {
            "type": c.type,
            "status": c.status,
            "lastTransitionTime": api_time(c.last_transition_time),
            **({"reason": c.reason} if c.reason else {}),
            **({"message": c.message} if c.message else {}),
        }
        for c in pod.status.conditions
        if c.type not in known
    ]
    return ours + others


def _condition(pod: Pod, type_: str, value: bool, reason_if_false: str, now: datetime) -> Raw:
    before = find_condition(pod.status.conditions, type_)
    status = "True" if value else "False"
    since = before.last_transition_time if before is not None and before.status == status else None
    body = {"type": type_, "status": status, "lastTransitionTime": api_time(since or now)}
    return body | ({"reason": reason_if_false} if reason_if_false and not value else {})
