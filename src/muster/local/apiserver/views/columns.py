"""The columns `kubectl get` shows for built-in kinds.

Pure; used by `tables.py`. Each kind has its column definitions and a function from an object to
its cells. Columns of priority 1 are those of `-o wide`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from muster.api.meta import Raw

Cells = Callable[["Raw", datetime], list[Any]]
NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


class Printer(NamedTuple):
    """How a kind is printed. A column is `Name`, or `Name+` for wide output only."""

    columns: tuple[str, ...]
    cells: Cells


def age(since: str | None, now: datetime) -> str:
    """`5m`, `3h20m`, `12d`: how long ago, as kubectl words it."""
    if not since:
        return UNKNOWN
    seconds = int((now - datetime.fromisoformat(since)).total_seconds())
    return duration(seconds)


def duration(seconds: int) -> str:
    """A span of time with two units at most."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _pair(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _pair(big: int, unit: str, small: int, small_unit: str) -> str:
    return f"{big}{unit}{small}{small_unit}" if small else f"{big}{unit}"


def _name(obj: Raw) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Raw, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _get(obj: Raw, *path: str) -> Any:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _labels(labels: Raw | None) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted((labels or {}).items())) or NONE


def _selector(obj: Raw) -> str:
    return _labels(_get(obj, "spec", "selector", "matchLabels"))


def _containers(obj: Raw) -> tuple[str, str]:
    found = _get(obj, "spec", "template", "spec", "containers") or []
    return ",".join(c["name"] for c in found), ",".join(c.get("image", "") for c in found)


# -- pods ----------------------------------------------------------------------------------------


def _pod(pod: Raw, now: datetime) -> list[Any]:
    statuses = _get(pod, "status", "containerStatuses") or []
    total = len(_get(pod, "spec", "containers") or [])
    ready = sum(bool(s.get("ready")) for s in statuses)
    gates = _get(pod, "spec", "readinessGates")
    return [
        _name(pod),
        f"{ready}/{total}",
        pod_reason(pod),
        _restarts(statuses, now),
        _age(pod, now),
        _get(pod, "status", "podIP") or NONE,
        _get(pod, "spec", "nodeName") or NONE,
        _get(pod, "status", "nominatedNodeName") or NONE,
        f"0/{len(gates)}" if gates else NONE,
    ]


def pod_reason(pod: Raw) -> str:
    """The STATUS column: what a person wants to know first."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or UNKNOWN)
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    reason = _init_reason(pod, status) or _container_reason(status) or reason
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _condition(status: Raw, type_: str) -> Raw:
    found = (c for c in status.get("conditions") or () if c.get("type") == type_)
    return next(found, {})


def _init_reason(pod: Raw, status: Raw) -> str:
    total = len(_get(pod, "spec", "initContainers") or [])
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
        ready = _condition(status, "Ready").get("status") == "True"
        return "Running" if ready else "NotReady"
    return reason


def _restarts(statuses: list[Raw], now: datetime) -> str:
    count = sum(s.get("restartCount", 0) for s in statuses)
    last = [_get(s, "lastState", "terminated", "finishedAt") for s in statuses]
    times = [t for t in last if t]
    return f"{count} ({age(max(times), now)} ago)" if count and times else str(count)


# -- the others ----------------------------------------------------------------------------------


def _node(node: Raw, now: datetime) -> list[Any]:
    ready = _condition(node.get("status") or {}, "Ready").get("status")
    words = {"True": "Ready", "False": "NotReady"}
    state = words.get(str(ready), "NotReady" if ready else "Unknown")
    if _get(node, "spec", "unschedulable"):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = sorted(k.removeprefix(prefix) for k in labels if k.startswith(prefix))
    info = _get(node, "status", "nodeInfo") or {}
    addresses = {a["type"]: a["address"] for a in _get(node, "status", "addresses") or ()}
    return [
        _name(node),
        state,
        ",".join(roles) or NONE,
        _age(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _service(service: Raw, now: datetime) -> list[Any]:
    ports = []
    for port in _get(service, "spec", "ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return [
        _name(service),
        _get(service, "spec", "type") or "ClusterIP",
        _get(service, "spec", "clusterIP") or NONE,
        ",".join(_get(service, "spec", "externalIPs") or ()) or NONE,
        ",".join(ports) or NONE,
        _age(service, now),
        _labels(_get(service, "spec", "selector")),
    ]


def _event(event: Raw, now: datetime) -> list[Any]:
    involved = event.get("involvedObject") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or _get(event, "series", "lastObservedTime") or first
    source = _get(event, "source", "component") or event.get("reportingComponent") or ""
    subobject = involved.get("fieldPath") or ""
    return [
        age(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}",
        subobject,
        ", ".join(p for p in (source, _get(event, "source", "host") or "") if p),
        str(event.get("message", "")).strip(),
        age(first, now),
        event.get("count") or _get(event, "series", "count") or 1,
        _name(event),
    ]


def _namespace(namespace: Raw, now: datetime) -> list[Any]:
    return [_name(namespace), _get(namespace, "status", "phase") or "", _age(namespace, now)]


def _config_map(config: Raw, now: datetime) -> list[Any]:
    count = len(config.get("data") or {}) + len(config.get("binaryData") or {})
    return [_name(config), count, _age(config, now)]


def _secret(secret: Raw, now: datetime) -> list[Any]:
    return [
        _name(secret),
        secret.get("type", ""),
        len(secret.get("data") or {}),
        _age(secret, now),
    ]


def _deployment(deployment: Raw, now: datetime) -> list[Any]:
    status = deployment.get("status") or {}
    names, images = _containers(deployment)
    return [
        _name(deployment),
        f"{status.get('readyReplicas', 0)}/{_get(deployment, 'spec', 'replicas') or 0}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(deployment, now),
        names,
        images,
        _selector(deployment),
    ]


def _replica_set(replica_set: Raw, now: datetime) -> list[Any]:
    status = replica_set.get("status") or {}
    return [
        _name(replica_set),
        _get(replica_set, "spec", "replicas") or 0,
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _age(replica_set, now),
        *_containers(replica_set),
        _selector(replica_set),
    ]


def _job(job: Raw, now: datetime) -> list[Any]:
    status, spec = job.get("status") or {}, job.get("spec") or {}
    done = status.get("succeeded", 0)
    state = "Running"
    for type_, word in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if _condition(status, type_).get("status") == "True":
            state = word
            break
    took = ""
    if status.get("startTime"):
        end = status.get("completionTime")
        until = datetime.fromisoformat(end) if end else now
        took = age(status["startTime"], until)
    wanted = spec.get("completions")
    parallel = spec.get("parallelism") or 0
    completions = f"{done}/{wanted}" if wanted is not None else f"{done}/1 of {parallel}"
    return [_name(job), state, completions, took, _age(job, now), *_containers(job), _selector(job)]


def _budget(budget: Raw, now: datetime) -> list[Any]:
    spec = budget.get("spec") or {}
    return [
        _name(budget),
        str(spec["minAvailable"]) if spec.get("minAvailable") is not None else "N/A",
        str(spec["maxUnavailable"]) if spec.get("maxUnavailable") is not None else "N/A",
        _get(budget, "status", "disruptionsAllowed") or 0,
        _age(budget, now),
    ]


def _priority(priority: Raw, now: datetime) -> list[Any]:
    return [
        _name(priority),
        priority.get("value", 0),
        bool(priority.get("globalDefault")),
        _age(priority, now),
        priority.get("preemptionPolicy", ""),
    ]


def _lease(lease: Raw, now: datetime) -> list[Any]:
    return [_name(lease), _get(lease, "spec", "holderIdentity") or "", _age(lease, now)]


def _endpoints(endpoints: Raw, now: datetime) -> list[Any]:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in endpoints.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ({"port": ""},)
    ]
    shown = ",".join(a.rstrip(":") for a in found[:3])
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return [_name(endpoints), (shown + more) or NONE, _age(endpoints, now)]


def _definition(crd: Raw, now: datetime) -> list[Any]:
    return [_name(crd), crd["metadata"].get("creationTimestamp")]


def _plain(obj: Raw, now: datetime) -> list[Any]:
    return [_name(obj), _age(obj, now)]


PLAIN = Printer(("Name", "Age"), _plain)
PRINTERS: dict[str, Printer] = {
    "pods": Printer(
        (
            "Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+",
            "Readiness Gates+",
        ),
        _pod,
    ),
    "nodes": Printer(
        (
            "Name", "Status", "Roles", "Age", "Version", "Internal-IP+", "External-IP+",
            "OS-Image+", "Kernel-Version+", "Container-Runtime+",
        ),
        _node,
    ),
    "services": Printer(
        ("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector+"), _service
    ),
    "events": Printer(
        (
            "Last Seen", "Type", "Reason", "Object", "Subobject+", "Source+", "Message",
            "First Seen+", "Count+", "Name+",
        ),
        _event,
    ),
    "namespaces": Printer(("Name", "Status", "Age"), _namespace),
    "configmaps": Printer(("Name", "Data", "Age"), _config_map),
    "secrets": Printer(("Name", "Type", "Data", "Age"), _secret),
    "deployments.apps": Printer(
        (
            "Name", "Ready", "Up-to-date", "Available", "Age", "Containers+", "Images+",
            "Selector+",
        ),
        _deployment,
    ),
    "replicasets.apps": Printer(
        (
            "Name", "Desired", "Current", "Ready", "Age", "Containers+", "Images+", "Selector+",
        ),
        _replica_set,
    ),
    "jobs.batch": Printer(
        (
            "Name", "Status", "Completions", "Duration", "Age", "Containers+", "Images+",
            "Selector+",
        ),
        _job,
    ),
    "poddisruptionbudgets.policy": Printer(
        ("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _budget
    ),
    "priorityclasses.scheduling.k8s.io": Printer(
        ("Name", "Value", "Global-Default", "Age", "PreemptionPolicy"), _priority
    ),
    "leases.coordination.k8s.io": Printer(("Name", "Holder", "Age"), _lease),
    "endpoints": Printer(("Name", "Endpoints", "Age"), _endpoints),
    "customresourcedefinitions.apiextensions.k8s.io": Printer(
        ("Name", "Created At"), _definition
    ),
}  # fmt: skip
