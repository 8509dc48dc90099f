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
    lasting = _lasting(pod)
    total = len(at(pod, "spec.containers") or []) + len(_sidecars(pod))
    ready = sum(bool(s.get("ready")) for s in lasting)
    gates = at(pod, "spec.readinessGates")
    return [
        name_of(pod),
        f"{ready}/{total}",
        pod_reason(pod),
        _restarts(pod, now),
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
    preparing = _init_reason(pod, status)
    if not preparing or condition(status, "Initialized").get("status") == "True":
        reason = _container_reason(status) or preparing or reason
    else:
        reason = preparing
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _init_reason(pod: Raw, status: Raw) -> str:
    total, sidecars = len(at(pod, "spec.initContainers") or []), _sidecars(pod)
    for i, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        ended = state.get("terminated")
        if ended and not ended.get("exitCode"):
            continue
        if container["name"] in sidecars and container.get("started"):
            continue
        if ended:
            return f"Init:{_ended(ended)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{i}/{total}"
    return ""


def _sidecars(pod: Raw) -> set[str]:
    """The names of the containers that start before the others and run beside them."""
    first = at(pod, "spec.initContainers") or []
    return {c["name"] for c in first if c.get("restartPolicy") == "Always"}


def _lasting(pod: Raw) -> list[Raw]:
    """What is told of the containers that are meant to run together."""
    first, sidecars = at(pod, "status.initContainerStatuses") or [], _sidecars(pod)
    return [s for s in first if s["name"] in sidecars] + (at(pod, "status.containerStatuses") or [])


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


def _restarts(pod: Raw, now: datetime) -> str:
    """Of the containers that last or, until the pod is prepared, of those that prepare it."""
    status = pod.get("status") or {}
    prepared = condition(status, "Initialized").get("status") == "True"
    if prepared or not _init_reason(pod, status):
        statuses = _lasting(pod)
    else:
        statuses = status.get("initContainerStatuses") or []
    count = sum(s.get("restartCount", 0) for s in statuses)
    last = [at(s, "lastState.terminated.finishedAt") for s in statuses]
    times = [t for t in last if t]
    return f"{count} ({age(max(times), now)} ago)" if count and times else str(count)
