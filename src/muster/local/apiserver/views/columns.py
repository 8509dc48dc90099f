"""The columns `kubectl get` shows for built-in kinds.

Pure; used by `tables.py`. Each kind has its column definitions and a function from an object to
its cells. Columns of priority 1 are those of `-o wide`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.local.apiserver.objects import at
from muster.local.apiserver.views import cluster_cells
from muster.local.apiserver.views.cells import NONE, UNKNOWN, age, age_of, condition, name_of
from muster.local.apiserver.views.pod_cells import pod_cells

if TYPE_CHECKING:
    from muster.api.meta import Raw

Cells = Callable[["Raw", datetime], list[Any]]


class Printer(NamedTuple):
    """How a kind is printed. A column is `Name`, or `Name+` for wide output only."""

    columns: tuple[str, ...]
    cells: Cells


def _labels(labels: Raw | None) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted((labels or {}).items())) or NONE


def _selector(obj: Raw) -> str:
    return _labels(at(obj, "spec.selector.matchLabels"))


def _containers(obj: Raw) -> tuple[str, str]:
    found = at(obj, "spec.template.spec.containers") or []
    return ",".join(c["name"] for c in found), ",".join(c.get("image", "") for c in found)


def _node(node: Raw, now: datetime) -> list[Any]:
    ready = condition(node.get("status") or {}, "Ready").get("status")
    words = {"True": "Ready", "False": "NotReady"}
    state = words.get(str(ready), "NotReady" if ready else "Unknown")
    if at(node, "spec.unschedulable"):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = sorted(k.removeprefix(prefix) for k in labels if k.startswith(prefix))
    info = at(node, "status.nodeInfo") or {}
    addresses = {a["type"]: a["address"] for a in at(node, "status.addresses") or ()}
    return [
        name_of(node),
        state,
        ",".join(roles) or NONE,
        age_of(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _outside(service: Raw) -> str:
    """Where a service is found from outside."""
    addresses = list(at(service, "spec.externalIPs") or ())
    match at(service, "spec.type"):
        case "ExternalName":
            return str(at(service, "spec.externalName") or NONE)
        case "LoadBalancer":
            given = at(service, "status.loadBalancer.ingress") or ()
            addresses = [i.get("ip") or i.get("hostname", "") for i in given] + addresses
            return ",".join(addresses) or "<pending>"
        case _:
            return ",".join(addresses) or NONE


def _service(service: Raw, now: datetime) -> list[Any]:
    ports = []
    for port in at(service, "spec.ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return [
        name_of(service),
        at(service, "spec.type") or "ClusterIP",
        at(service, "spec.clusterIP") or NONE,
        _outside(service),
        ",".join(ports) or NONE,
        age_of(service, now),
        _labels(at(service, "spec.selector")),
    ]


def _event(event: Raw, now: datetime) -> list[Any]:
    involved = event.get("involvedObject") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or at(event, "series.lastObservedTime") or first
    source = [at(event, "source.component"), at(event, "source.host")]
    if not any(source):
        source = [event.get("reportingComponent"), event.get("reportingInstance")]
    subobject = involved.get("fieldPath") or ""
    return [
        age(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}",
        subobject,
        ", ".join(part for part in source if part),
        str(event.get("message", "")).strip(),
        age(first, now),
        event.get("count") or at(event, "series.count") or 1,
        name_of(event),
    ]


def _namespace(namespace: Raw, now: datetime) -> list[Any]:
    return [name_of(namespace), at(namespace, "status.phase") or "", age_of(namespace, now)]


def _config_map(config: Raw, now: datetime) -> list[Any]:
    count = len(config.get("data") or {}) + len(config.get("binaryData") or {})
    return [name_of(config), count, age_of(config, now)]


def _secret(secret: Raw, now: datetime) -> list[Any]:
    return [
        name_of(secret),
        secret.get("type", ""),
        len(secret.get("data") or {}),
        age_of(secret, now),
    ]


def _deployment(deployment: Raw, now: datetime) -> list[Any]:
    status = deployment.get("status") or {}
    names, images = _containers(deployment)
    return [
        name_of(deployment),
        f"{status.get('readyReplicas', 0)}/{at(deployment, 'spec.replicas') or 0}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(deployment, now),
        names,
        images,
        _selector(deployment),
    ]


def _replica_set(replica_set: Raw, now: datetime) -> list[Any]:
    status = replica_set.get("status") or {}
    return [
        name_of(replica_set),
        at(replica_set, "spec.replicas") or 0,
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(replica_set, now),
        *_containers(replica_set),
        _selector(replica_set),
    ]


def _job(job: Raw, now: datetime) -> list[Any]:
    status, spec = job.get("status") or {}, job.get("spec") or {}
    done = status.get("succeeded", 0)
    state = "Running"
    for type_, word in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if condition(status, type_).get("status") == "True":
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
    return [
        name_of(job),
        state,
        completions,
        took,
        age_of(job, now),
        *_containers(job),
        _selector(job),
    ]


def _budget(budget: Raw, now: datetime) -> list[Any]:
    spec = budget.get("spec") or {}
    return [
        name_of(budget),
        str(spec["minAvailable"]) if spec.get("minAvailable") is not None else "N/A",
        str(spec["maxUnavailable"]) if spec.get("maxUnavailable") is not None else "N/A",
        at(budget, "status.disruptionsAllowed") or 0,
        age_of(budget, now),
    ]


def _priority(priority: Raw, now: datetime) -> list[Any]:
    return [
        name_of(priority),
        priority.get("value", 0),
        bool(priority.get("globalDefault")),
        age_of(priority, now),
        priority.get("preemptionPolicy", ""),
    ]


def _lease(lease: Raw, now: datetime) -> list[Any]:
    return [name_of(lease), at(lease, "spec.holderIdentity") or "", age_of(lease, now)]


def _endpoints(endpoints: Raw, now: datetime) -> list[Any]:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in endpoints.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ({"port": ""},)
    ]
    shown = ",".join(a.rstrip(":") for a in found[:3])
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return [name_of(endpoints), (shown + more) or NONE, age_of(endpoints, now)]


def _plain(obj: Raw, now: datetime) -> list[Any]:
    return [name_of(obj), age_of(obj, now)]


_BINDING = ("Name", "Role", "Age", "Users+", "Groups+", "ServiceAccounts+")
PLAIN = Printer(("Name", "Age"), _plain)
PRINTERS: dict[str, Printer] = {
    "pods": Printer(
        (
            "Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+",
            "Readiness Gates+",
        ),
        pod_cells,
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
        ("Name", "Created At"), cluster_cells.dated
    ),
    "resourcequotas": Printer(("Name", "Request", "Limit", "Age"), cluster_cells.quota),
    "limitranges": Printer(("Name", "Created At"), cluster_cells.dated),
    "persistentvolumes": Printer(
        (
            "Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim",
            "StorageClass", "VolumeAttributesClass", "Reason", "Age", "VolumeMode+",
        ),
        cluster_cells.volume,
    ),
    "persistentvolumeclaims": Printer(
        (
            "Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass",
            "VolumeAttributesClass", "Age", "VolumeMode+",
        ),
        cluster_cells.claim,
    ),
    "podgroups.scheduling.k8s.io": Printer(
        ("Name", "Policy", "Workload", "Status", "Age"), cluster_cells.pod_group
    ),
    "endpointslices.discovery.k8s.io": Printer(
        ("Name", "AddressType", "Ports", "Endpoints", "Age"), cluster_cells.endpoint_slice
    ),
    "storageclasses.storage.k8s.io": Printer(
        (
            "Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion",
            "Age",
        ),
        cluster_cells.storage_class,
    ),
    "roles.rbac.authorization.k8s.io": Printer(("Name", "Created At"), cluster_cells.dated),
    "clusterroles.rbac.authorization.k8s.io": Printer(
        ("Name", "Created At"), cluster_cells.dated
    ),
    "rolebindings.rbac.authorization.k8s.io": Printer(_BINDING, cluster_cells.binding),
    "clusterrolebindings.rbac.authorization.k8s.io": Printer(_BINDING, cluster_cells.binding),
}  # fmt: skip
