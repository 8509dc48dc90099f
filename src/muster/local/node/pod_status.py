"""A pod's status, computed purely from what this machine knows about it.

Called by the pod loop, which writes the answer to the API when it differs from the last one. What
others write into a pod's conditions (the scheduler's PodScheduled) is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """A time as the API writes it."""
    return None if time is None else timestamp(time)


def pod_status(
    pod: Pod, record: PodRecord, troubles: Mapping[str, WaitingReason], host_ip: str, now: datetime
) -> Raw:
    """The pod's status; empty if there is nothing to say.

    `troubles` says by container, or "" for the whole pod, what keeps it waiting.
    """
    if pod.finished:
        return _after_the_end(pod, record, now)
    phase, reason, message = _phase(pod, record, now)
    ready = record.open and phase == "Running"
    ready = ready and all(_ready(record, c) for c in _lasting(pod))
    blamed = _blamed(pod, record) if phase == "Failed" and not reason else ""
    if blamed:
        reason, message = "Terminated", blamed
    body: Raw = {
        "phase": phase,
        "hostIP": host_ip,
        "startTime": api_time(pod.status.start_time or now),
        "conditions": _conditions(pod, record, phase, blamed, ready=ready, now=now),
        "initContainerStatuses": _containers(pod.spec.init_containers, pod, record, troubles, now),
        "containerStatuses": _containers(pod.spec.containers, pod, record, troubles, now),
    }
    if record.address:
        body |= {"podIP": record.address, "podIPs": [{"ip": record.address}]}
    if reason or pod.status.reason:
        body |= {"reason": reason or None, "message": message or None}
    return body


class WaitingReason:
    """Why a container is not started: a reason of Kubernetes' and a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        self.message = message


def _after_the_end(pod: Pod, record: PodRecord, now: datetime) -> Raw:
    """Nothing, but for containers that were still running when the pod was declared finished."""
    told = all(c.state.terminated is not None for c in pod.status.container_statuses)
    if told or not record.known:
        return {}
    return {"containerStatuses": _containers(pod.spec.containers, pod, record, {}, now)}


def _phase(pod: Pod, record: PodRecord, now: datetime) -> tuple[str, str, str]:
    late = decide.overdue(pod, now)
    if late is not None and late <= 0:
        return "Failed", "DeadlineExceeded", "Pod was active on the node longer than the deadline"
    end = decide.outcome(pod, record)
    if end is not None:
        return ("Failed" if _blamed(pod, record) else end), "", ""
    started = any(record.last(container.name) for container in pod.spec.containers)
    return ("Running" if started and _any_started(pod, record) else "Pending"), "", ""


def _blamed(pod: Pod, record: PodRecord) -> str:
    """What of this machine, and nothing of the pod's own, ended the pod, if so."""
    ends = [attempts[-1].reason for attempts in record.containers.values()]
    if record.rebooted and LOST in ends:
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


def _lasting(pod: Pod) -> tuple[Container, ...]:
    """The containers that a ready pod has running: sidecars are among them."""
    return (*filter(is_sidecar_container, pod.spec.init_containers), *pod.spec.containers)


def _containers(
    containers: tuple[Container, ...],
    pod: Pod,
    record: PodRecord,
    troubles: Mapping[str, WaitingReason],
    now: datetime,
) -> list[Raw]:
    return [_container(c, pod, record, troubles, now) for c in containers]


def _container(
    container: Container,
    pod: Pod,
    record: PodRecord,
    troubles: Mapping[str, WaitingReason],
    now: datetime,
) -> Raw:
    attempts = record.containers.get(container.name, ())
    last = attempts[-1] if attempts else None
    before = attempts[-2] if len(attempts) > 1 else None
    init = container in pod.spec.init_containers
    passed = init and not is_sidecar_container(container) and last is not None and not last.alive
    state = _state(container, pod, record, troubles, now)
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
    troubles: Mapping[str, WaitingReason],
    now: datetime,
) -> Raw:
    last = record.last(container.name)
    trouble = troubles.get(container.name) or troubles.get("")
    if last is not None and last.state is State.RUNNING:
        return {"running": {"startedAt": api_time(last.started_at)}}
    if last is not None and not last.alive:
        over = pod.finished or pod.metadata.deletion_timestamp is not None
        over = over or not _comes_again(container, pod, last)
        left = decide.restart_in(last, record, now)
        if over or (left <= 0 and trouble is None):
            return {"terminated": _terminated(last, record, container)}
        if left > 0:
            seconds = decide.pause(last, record)
            said = f"back-off {seconds:g}s restarting failed container={container.name}"
            return {"waiting": {"reason": "CrashLoopBackOff", "message": said}}
    if trouble is not None:
        return {"waiting": {"reason": trouble.reason, "message": trouble.message}}
    ready = container in pod.spec.init_containers or decide.initialized(pod, record)
    return {"waiting": {"reason": "ContainerCreating" if ready else "PodInitializing"}}


def _comes_again(container: Container, pod: Pod, last: Attempt) -> bool:
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
    pod: Pod, record: PodRecord, phase: str, blamed: str, *, ready: bool, now: datetime
) -> list[Raw]:
    done = phase in ("Succeeded", "Failed")
    initialized = decide.initialized(pod, record) or phase == "Succeeded"
    why_not = "PodCompleted" if phase == "Succeeded" else "PodFailed" if done else ""
    ours = [
        _condition(pod, "PodReadyToStartContainers", record.open, "", now),
        _condition(
            pod, "Initialized", initialized, "" if initialized else "ContainersNotInitialized", now
        ),
        _condition(pod, "Ready", ready, "" if ready else why_not or "ContainersNotReady", now),
        _condition(
            pod, "ContainersReady", ready, "" if ready else why_not or "ContainersNotReady", now
        ),
        *_disruption(pod, blamed, now),
    ]
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


def _disruption(pod: Pod, blamed: str, now: datetime) -> list[Raw]:
    """As a node that shuts down in time says it: the pod is replaced whatever its policy."""
    if not blamed:
        return []
    said = _condition(pod, "DisruptionTarget", True, "TerminationByKubelet", now)
    return [said | {"message": blamed}]


def _condition(pod: Pod, kind: str, value: bool, reason: str, now: datetime) -> Raw:
    before = find_condition(pod.status.conditions, kind)
    wanted = "True" if value else "False"
    same = before is not None and before.status == wanted
    since = before.last_transition_time if before is not None and same else now
    body = {"type": kind, "status": wanted, "lastTransitionTime": api_time(since or now)}
    return body | ({"reason": reason} if reason else {})
