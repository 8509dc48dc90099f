"""What `kubectl get pods` shows of a pod.

Pure; used by `columns.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.objects import at
from muster.local.apiserver.views.cells import NONE, UNKNOWN, age, age_of, condition, name_of

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw


def pod_cells(pod: Raw, now: datetime) -> list[Any]:
    """One row."""
    statuses = at(pod, "status.containerStatuses") or []
    total = len(at(pod, "spec.containers") or [])
    ready = sum(bool(s.get("ready")) for s in statuses)
    gates = at(pod, "spec.readinessGates")
    return [
        name_of(pod),
        f"{ready}/{total}",
        pod_reason(pod),
        _restarts(statuses, now),
        age_of(pod, now),
        at(pod, "status.podIP") or NONE,
        at(pod, "spec.nodeName") or NONE,
        at(pod, "status.nominatedNodeName") or NONE,
        f"0/{len(gates)}" if gates else NONE,
    ]


def pod_reason(pod: Raw) -> str:
    """The STATUS column: what a person wants to know first."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or UNKNOWN)
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    reason = _init_reason(pod, status) or _container_reason(status) or reason
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _init_reason(pod: Raw, status: Raw) -> str:
    total = len(at(pod, "spec.initContainers") or [])
    for i, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        ended = state.get("terminated")
        if ended and not ended.get("exitCode"):
            continue
        if ended:
            return f"Init:{_ended(ended)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{i}/{total}"
    return ""


def _ended(state: Raw) -> str:
    if state.get("reason"):
        return str(state["reason"])
    if state.get("signal"):
        return f"Signal:{state['signal']}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def _container_reason(status: Raw) -> str:
    reason, running = "", False
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _ended(ended)
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        ready = condition(status, "Ready").get("status") == "True"
        return "Running" if ready else "NotReady"
    return reason


def _restarts(statuses: list[Raw], now: datetime) -> str:
    count = sum(s.get("restartCount", 0) for s in statuses)
    last = [at(s, "lastState.terminated.finishedAt") for s in statuses]
    times = [t for t in last if t]
    return f"{count} ({age(max(times), now)} ago)" if count and times else str(count)
