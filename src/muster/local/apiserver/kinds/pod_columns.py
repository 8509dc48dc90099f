"""Pod: what `kubectl get pods` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.codec import at
from muster.local.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

COLUMNS = (
    "Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+",
    "Readiness Gates+",
)  # fmt: skip
_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_cells(pod: Raw, now: datetime) -> list[Any]:
    """The cells of a pod's row."""
    total = len(cells.rows(pod, "spec.containers")) + len(_sidecars(pod))
    ready = sum(bool(s.get("ready")) for s in _running(pod))
    return [
        cells.name_of(pod),
        f"{ready}/{total}",
        pod_status(pod),
        _restarts(pod, now),
        cells.age_of(pod, now),
        cells.text(pod, "status.podIP", cells.NONE),
        cells.text(pod, "spec.nodeName", cells.NONE),
        cells.text(pod, "status.nominatedNodeName", cells.NONE),
        _gates(pod),
    ]


def row_conditions(pod: Raw) -> list[Raw]:
    """The condition of a row whose pod has ended."""
    phase = cells.text(pod, "status.phase")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def _gates(pod: Raw) -> str:
    """How many readiness gates are true."""
    gates = cells.rows(pod, "spec.readinessGates")
    ready = sum(cells.condition_is_true(pod, cells.text(gate, "conditionType")) for gate in gates)
    return f"{ready}/{len(gates)}" if gates else cells.NONE


def pod_status(pod: Raw) -> str:
    """The STATUS column: the most urgent reason."""
    reason = cells.text(pod, "status.reason") or cells.text(pod, "status.phase", cells.UNKNOWN)
    scheduled = cells.conditions(pod, "PodScheduled")[:1]
    if any((c.get("status"), c.get("reason")) == ("False", "SchedulingGated") for c in scheduled):
        reason = "SchedulingGated"
    init_reason = _init_reason(pod)
    if not init_reason or cells.condition_is_true(pod, "Initialized"):
        reason = _container_reason(pod) or init_reason or reason
    else:
        reason = init_reason
    if cells.is_being_deleted(pod):
        return "Unknown" if cells.text(pod, "status.reason") == "NodeLost" else "Terminating"
    return reason


def _init_reason(pod: Raw) -> str:
    total, sidecars = len(cells.rows(pod, "spec.initContainers")), _sidecars(pod)
    for i, container in enumerate(cells.rows(pod, "status.initContainerStatuses")):
        ended = at(container, "state.terminated")
        if ended is not None and not cells.number(ended, "exitCode"):
            continue
        if cells.text(container, "name") in sidecars and container.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}"
        waiting = cells.text(container, "state.waiting.reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{i}/{total}"
    return ""


def _sidecars(pod: Raw) -> set[str]:
    """The names of the containers that start before the others and run sidecar_statuses them."""
    first = cells.rows(pod, "spec.initContainers")
    return {cells.text(c, "name") for c in first if cells.text(c, "restartPolicy") == "Always"}


def _running(pod: Raw) -> list[Raw]:
    """Statuses of the containers that run together: sidecars and main containers."""
    first, sidecars = cells.rows(pod, "status.initContainerStatuses"), _sidecars(pod)
    sidecar_statuses = [s for s in first if cells.text(s, "name") in sidecars]
    return sidecar_statuses + cells.rows(pod, "status.containerStatuses")


def _ended(state: Raw) -> str:
    if cells.text(state, "reason"):
        return cells.text(state, "reason")
    if cells.number(state, "signal"):
        return f"Signal:{cells.number(state, 'signal')}"
    return f"ExitCode:{cells.number(state, 'exitCode')}"


def _container_reason(pod: Raw) -> str:
    reason, running = "", False
    for container in reversed(cells.rows(pod, "status.containerStatuses")):
        state = cells.fields(container, "state")
        if cells.text(state, "waiting.reason"):
            reason = cells.text(state, "waiting.reason")
        elif state.get("terminated") is not None:
            reason = _ended(state["terminated"])
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        return "Running" if cells.condition_is_true(pod, "Ready") else "NotReady"
    return reason


def _restarts(pod: Raw, now: datetime) -> str:
    """Of the running containers or, until the pod is initialized, of its init containers."""
    if cells.condition_is_true(pod, "Initialized") or not _init_reason(pod):
        statuses = _running(pod)
    else:
        statuses = cells.rows(pod, "status.initContainerStatuses")
    count = sum(cells.number(s, "restartCount") for s in statuses)
    times = [cells.text(s, "lastState.terminated.finishedAt") for s in statuses]
    last = max(times, default="")
    return f"{count} ({cells.age(last, now)} ago)" if count and last else str(count)
