"""Pods, nodes and groups in one line each, for the scheduler's tests and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from kubekit.objects.core import Node, Pod, PodDisruptionBudget
from kubekit.objects.kinds import Kind
from kubekit.objects.storage import (
    CSI_NODES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    CsiNode,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from muster.contract.gang import LATE_ANNOTATION
from muster.contract.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    NATIVE_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    CoschedulingPodGroup,
    HyperNode,
    NativePodGroup,
    VolcanoPodGroup,
)

GPU = "nvidia.com/gpu"
START = datetime(2026, 1, 1, tzinfo=UTC)
_uids = count(1)


def node(
    name: str,
    *,
    gpus: int = 0,
    cpu: str = "64",
    memory: str = "256Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: tuple[tuple[str, str, str], ...] = (),
    ready: bool = True,
    unschedulable: bool = False,
) -> Node:
    """A node with room; `taints` as (key, value, effect)."""
    room = {"cpu": cpu, "memory": memory, "pods": str(pods)} | ({GPU: str(gpus)} if gpus else {})
    raw = {
        "metadata": {
            "name": name,
            "uid": f"node-{name}",
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": {
            "unschedulable": unschedulable,
            "taints": [{"key": k, "value": v, "effect": e} for k, v, e in taints],
        },
        "status": {
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return msgspec.convert(raw, Node)


def pod(
    name: str,
    *,
    gpus: int = 0,
    cpu: str = "1",
    memory: str = "1Gi",
    group: str = "",
    dialect: str = "volcano",
    role: str = "",
    priority: int = 0,
    scheduler: str = "muster",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ports: tuple[int, ...] = (),
    spec: Mapping[str, Any] | None = None,
    namespace: str = "default",
    created: float = 0.0,
    controller: str = "TFJob",
) -> Pod:
    """A pending pod; `spec` is merged in as JSON, `controller` is the kind that owns it, if any."""
    requests = {"cpu": cpu, "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    marks = dict(annotations or {}) | ({"volcano.sh/task-spec": role} if role else {})
    tags = dict(labels or {})
    extra: dict[str, Any] = {}
    if group:
        _name_group(dialect, group, marks, tags, extra)
    owner = [{"kind": controller, "name": "job", "uid": f"job-{group}", "controller": True}]
    raw = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"pod-{next(_uids):08d}",
            "labels": tags,
            "annotations": marks,
            "creationTimestamp": (START + timedelta(seconds=created)).isoformat(),
            "ownerReferences": owner if controller else [],
        },
        "spec": {
            "schedulerName": scheduler,
            "priority": priority,
            "containers": [
                {
                    "name": "main",
                    "resources": {"requests": requests},
                    "ports": [{"containerPort": p, "hostPort": p} for p in ports],
                }
            ],
            **extra,
            **(spec or {}),
        },
        "status": {"phase": "Pending"},
    }
    return msgspec.convert(raw, Pod)


def _name_group(
    dialect: str, group: str, marks: dict[str, str], tags: dict[str, str], extra: dict[str, Any]
) -> None:
    if dialect == "native":
        extra["schedulingGroup"] = {"podGroupName": group}
    elif dialect == "volcano":
        marks["scheduling.k8s.io/group-name"] = group
    elif dialect == "coscheduling":
        tags["scheduling.x-k8s.io/pod-group"] = group
    elif dialect.startswith("labels:"):
        tags["pod-group.scheduling.sigs.k8s.io/name"] = group
        tags["pod-group.scheduling.sigs.k8s.io/min-available"] = dialect.partition(":")[2]
    elif dialect.startswith("koordinator:"):
        marks["gang.scheduling.koordinator.sh/name"] = group
        marks["gang.scheduling.koordinator.sh/min-available"] = dialect.partition(":")[2]
    elif dialect == "pdb":
        tags["gang"] = group
    else:
        raise ValueError(dialect)


def gang(name: str, size: int, **each: Any) -> list[Pod]:
    """Pods of one gang, `<name>-0` and on."""
    return [pod(f"{name}-{i}", group=name, **each) for i in range(size)]


def volcano_group(
    name: str,
    minimum: int,
    *,
    roles: Mapping[str, int] | None = None,
    priority_class: str = "",
    annotations: Mapping[str, str] | None = None,
    min_resources: Mapping[str, str] | None = None,
    created: float = 0.0,
    namespace: str = "default",
    spec: Mapping[str, Any] | None = None,
) -> VolcanoPodGroup:
    metadata = _metadata(name, namespace, created, annotations)
    if LATE_ANNOTATION in (annotations or {}):
        metadata["ownerReferences"] = [{"kind": "MPIJob", "name": name, "controller": True}]
    raw = {
        "metadata": metadata,
        "spec": {
            "minMember": minimum,
            "minTaskMember": dict(roles or {}),
            "priorityClassName": priority_class,
            "minResources": dict(min_resources or {}),
            **(spec or {}),
        },
    }
    return msgspec.convert(raw, VolcanoPodGroup)


def coscheduling_group(name: str, minimum: int) -> CoschedulingPodGroup:
    raw = {"metadata": _metadata(name), "spec": {"minMember": minimum}}
    return msgspec.convert(raw, CoschedulingPodGroup)


def native_group(name: str, minimum: int, spec: Mapping[str, Any] | None = None) -> NativePodGroup:
    policy = {"gang": {"minCount": minimum}}
    raw = {"metadata": _metadata(name), "spec": {"schedulingPolicy": policy, **(spec or {})}}
    return msgspec.convert(raw, NativePodGroup)


def hyper_node(name: str, tier: int, *members: Mapping[str, Any], tier_name: str = "") -> HyperNode:
    """A HyperNode; each member as JSON of its selector, `inner` names a HyperNode."""
    rows = [
        {"type": "HyperNode", "selector": {"exactMatch": {"name": member["inner"]}}}
        if "inner" in member
        else {"type": "Node", "selector": dict(member)}
        for member in members
    ]
    spec = {"tier": tier, "tierName": tier_name, "members": rows}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, HyperNode)


def budget(
    name: str, minimum: int | str, labels: Mapping[str, str], *, allowed: int = 0
) -> PodDisruptionBudget:
    """A disruption budget that allows so many evictions now."""
    raw = {
        "metadata": _metadata(name),
        "spec": {"minAvailable": minimum, "selector": {"matchLabels": dict(labels)}},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(raw, PodDisruptionBudget)


KIND_OF: dict[type, Kind[Any]] = {
    VolcanoPodGroup: VOLCANO_POD_GROUPS,
    CoschedulingPodGroup: COSCHEDULING_POD_GROUPS,
    NativePodGroup: NATIVE_POD_GROUPS,
}
STORAGE_KIND_OF: dict[type, Kind[Any]] = {
    VolumeClaim: VOLUME_CLAIMS,
    PersistentVolume: VOLUMES,
    StorageClass: STORAGE_CLASSES,
    CsiNode: CSI_NODES,
}


def _metadata(
    name: str,
    namespace: str = "default",
    created: float = 0.0,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"group-{next(_uids):08d}",
        "creationTimestamp": (START + timedelta(seconds=created)).isoformat(),
        "annotations": dict(annotations or {}),
    }
