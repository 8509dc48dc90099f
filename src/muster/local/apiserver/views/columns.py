"""The columns `kubectl get` shows for built-in kinds.

Pure; used by `tables.py`. Each kind has its column definitions and a function from an object to
its cells. Columns of priority 1 are those of `-o wide`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.local.apiserver.kinds.pod_columns import pod_cells
from muster.local.apiserver.objects import at
from muster.local.apiserver.views import cluster_cells, workload_cells
from muster.local.apiserver.views.cells import (
    NONE,
    UNKNOWN,
    age,
    age_of,
    condition_is_true,
    conditions,
    fields,
    name_of,
    number,
    pairs,
    rows,
    text,
    words,
)

if TYPE_CHECKING:
    from muster.api.meta import Raw

Cells = Callable[["Raw", datetime], list[Any]]


class Printer(NamedTuple):
    """How a kind is printed. A column is `Name`, or `Name+` for wide output only."""

    columns: tuple[str, ...]
    cells: Cells


def _node(node: Raw, now: datetime) -> list[Any]:
    prefix = "node-role.kubernetes.io/"
    labels = fields(node, "metadata.labels")
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    roles.add(str(labels.get("kubernetes.io/role") or ""))
    return [
        name_of(node),
        _node_state(node),
        ",".join(sorted(filter(None, roles))) or NONE,
        age_of(node, now),
        text(node, "status.nodeInfo.kubeletVersion"),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        text(node, "status.nodeInfo.osImage", UNKNOWN),
        text(node, "status.nodeInfo.kernelVersion", UNKNOWN),
        text(node, "status.nodeInfo.containerRuntimeVersion", UNKNOWN),
    ]


def _node_state(node: Raw) -> str:
    state = "Unknown"
    if conditions(node, "Ready"):
        state = "Ready" if condition_is_true(node, "Ready") else "NotReady"
    return f"{state},SchedulingDisabled" if at(node, "spec.unschedulable") else state


def _address(node: Raw, type_: str) -> str:
    found = [a for a in rows(node, "status.addresses") if text(a, "type") == type_]
    return text(found[0], "address") if found else NONE


def _outside(service: Raw) -> str:
    """Where a service is found from outside."""
    addresses = words(service, "spec.externalIPs")
    match at(service, "spec.type"):
        case "ExternalName":
            return text(service, "spec.externalName", NONE)
        case "LoadBalancer":
            given = rows(service, "status.loadBalancer.ingress")
            addresses = [text(i, "ip") or text(i, "hostname") for i in given] + addresses
            return ",".join(addresses) or "<pending>"
        case _:
            return ",".join(addresses) or NONE


def _service(service: Raw, now: datetime) -> list[Any]:
    ports = []
    for port in rows(service, "spec.ports"):
        node = f":{port['nodePort']}" if number(port, "nodePort") else ""
        ports.append(f"{number(port, 'port')}{node}/{text(port, 'protocol', 'TCP')}")
    return [
        name_of(service),
        text(service, "spec.type", "ClusterIP"),
        text(service, "spec.clusterIP", NONE),
        _outside(service),
        ",".join(ports) or NONE,
        age_of(service, now),
        pairs(fields(service, "spec.selector")),
    ]


def _event(event: Raw, now: datetime) -> list[Any]:
    first = text(event, "firstTimestamp") or text(event, "eventTime")
    last = text(event, "lastTimestamp") or text(event, "series.lastObservedTime", first)
    kind, name = text(event, "involvedObject.kind"), text(event, "involvedObject.name")
    return [
        age(last, now),
        text(event, "type"),
        text(event, "reason"),
        f"{kind.lower()}/{name}" if name else kind.lower(),
        text(event, "involvedObject.fieldPath"),
        _source(event),
        text(event, "message").strip(),
        age(first, now),
        number(event, "count") or number(event, "series.count") or 1,
        name_of(event),
    ]


def _source(event: Raw) -> str:
    """Who tells it, and where."""
    who, where = text(event, "source.component"), text(event, "source.host")
    if not who and not where:
        who, where = text(event, "reportingComponent"), text(event, "reportingInstance")
    return f"{who}, {where}" if where else who


def _namespace(namespace: Raw, now: datetime) -> list[Any]:
    return [name_of(namespace), text(namespace, "status.phase"), age_of(namespace, now)]


def _config_map(config: Raw, now: datetime) -> list[Any]:
    count = len(fields(config, "data")) + len(fields(config, "binaryData"))
    return [name_of(config), count, age_of(config, now)]


def _secret(secret: Raw, now: datetime) -> list[Any]:
    return [
        name_of(secret),
        text(secret, "type"),
        len(fields(secret, "data")),
        age_of(secret, now),
    ]


def _priority(priority: Raw, now: datetime) -> list[Any]:
    return [
        name_of(priority),
        number(priority, "value"),
        bool(priority.get("globalDefault")),
        age_of(priority, now),
        text(priority, "preemptionPolicy"),
    ]


def _lease(lease: Raw, now: datetime) -> list[Any]:
    return [name_of(lease), text(lease, "spec.holderIdentity"), age_of(lease, now)]


def _endpoints(endpoints: Raw, now: datetime) -> list[Any]:
    found = [
        ":".join([text(address, "ip"), *([str(number(port, "port"))] if port else [])])
        for subset in rows(endpoints, "subsets")
        for address in rows(subset, "addresses")
        for port in rows(subset, "ports") or ({},)
    ]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return [name_of(endpoints), (",".join(found[:3]) + more) or NONE, age_of(endpoints, now)]


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
        workload_cells.deployment,
    ),
    "replicasets.apps": Printer(
        (
            "Name", "Desired", "Current", "Ready", "Age", "Containers+", "Images+", "Selector+",
        ),
        workload_cells.replica_set,
    ),
    "jobs.batch": Printer(
        (
            "Name", "Status", "Completions", "Duration", "Age", "Containers+", "Images+",
            "Selector+",
        ),
        workload_cells.job,
    ),
    "poddisruptionbudgets.policy": Printer(
        ("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"),
        workload_cells.budget,
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
