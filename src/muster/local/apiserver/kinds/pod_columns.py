"""What `kubectl get pods` shows of a pod.

Pure; used by `columns.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.objects import at
from muster.local.apiserver.views.cells import (
    NONE,
    UNKNOWN,
    age,
    age_of,
    condition_is_true,
    conditions,
    fields,
    is_being_deleted,
    name_of,
    number,
    rows,
    text,
)

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_cells(pod: Raw, now: datetime) -> list[Any]:
    """One row."""
    total = len(rows(pod, "spec.containers")) + len(_sidecars(pod))
    ready = sum(bool(s.get("ready")) for s in _lasting(pod))
    return [
        name_of(pod),
        f"{ready}/{total}",
        pod_status(pod),
        _restarts(pod, now),
        age_of(pod, now),
        text(pod, "status.podIP", NONE),
        text(pod, "spec.nodeName", NONE),
        text(pod, "status.nominatedNodeName", NONE),
        _gates(pod),
    ]


def row_conditions(pod: Raw) -> list[Raw]:
    """What a row says of itself: that it is of a pod that has ended."""
    phase = text(pod, "status.phase")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def _gates(pod: Raw) -> str:
    """How many of those that the pod waits for have said yes."""
    gates = rows(pod, "spec.readinessGates")
    passed = sum(condition_is_true(pod, text(gate, "conditionType")) for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


def pod_status(pod: Raw) -> str:
    """The STATUS column: what a person wants to know first."""
    reason = text(pod, "status.reason") or text(pod, "status.phase", UNKNOWN)
    scheduled = conditions(pod, "PodScheduled")[:1]
    if any((c.get("status"), c.get("reason")) == ("False", "SchedulingGated") for c in scheduled):
        reason = "SchedulingGated"
    preparing = _init_reason(pod)
    if not preparing or condition_is_true(pod, "Initialized"):
        reason = _container_reason(pod) or preparing or reason
    else:
        reason = preparing
    if is_being_deleted(pod):
        return "Unknown" if text(pod, "status.reason") == "NodeLost" else "Terminating"
    return reason


def _init_reason(pod: Raw) -> str:
    total, sidecars = len(rows(pod, "spec.initContainers")), _sidecars(pod)
    for i, container in enumerate(rows(pod, "status.initContainerStatuses")):
        ended = at(container, "state.terminated")
        if ended is not None and not number(ended, "exitCode"):
            continue
        if text(container, "name") in sidecars and container.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}"
        waiting = text(container, "state.waiting.reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{i}/{total}"
    return ""


def _sidecars(pod: Raw) -> set[str]:
    """The names of the containers that start before the others and run beside them."""
    first = rows(pod, "spec.initContainers")
    return {text(c, "name") for c in first if text(c, "restartPolicy") == "Always"}


def _lasting(pod: Raw) -> list[Raw]:
    """What is told of the containers that are meant to run together."""
    first, sidecars = rows(pod, "status.initContainerStatuses"), _sidecars(pod)
    beside = [s for s in first if text(s, "name") in sidecars]
    return beside + rows(pod, "status.containerStatuses")


def _ended(state: Raw) -> str:
    if text(state, "reason"):
        return text(state, "reason")
    if number(state, "signal"):
        return f"Signal:{number(state, 'signal')}"
    return f"ExitCode:{number(state, 'exitCode')}"


def _container_reason(pod: Raw) -> str:
    reason, running = "", False
    for container in reversed(rows(pod, "status.containerStatuses")):
        state = fields(container, "state")
        if text(state, "waiting.reason"):
            reason = text(state, "waiting.reason")
        elif state.get("terminated") is not None:
            reason = _ended(state["terminated"])
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        return "Running" if condition_is_true(pod, "Ready") else "NotReady"
    return reason


def _restarts(pod: Raw, now: datetime) -> str:
    """Of the containers that last or, until the pod is prepared, of those that prepare it."""
    if condition_is_true(pod, "Initialized") or not _init_reason(pod):
        statuses = _lasting(pod)
    else:
        statuses = rows(pod, "status.initContainerStatuses")
    count = sum(number(s, "restartCount") for s in statuses)
    times = [text(s, "lastState.terminated.finishedAt") for s in statuses]
    last = max(times, default="")
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)
