"""Objects for tests of pages, and text that tries to become a program."""

from __future__ import annotations

from datetime import UTC, datetime

from kubekit.objects.core import (
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Resources,
    Taint,
)
from kubekit.objects.meta import Condition, ObjectMeta, OwnerReference, Raw, timestamp

HOSTILE = "</td><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'{{7*7}}"
"""If a page shows this as anything but text, `window.hacked` is set."""
_REPLICAS = {"TFJob": "tfReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs"}
_CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch"}


def job(
    name: str,
    *,
    kind: str = "TFJob",
    namespace: str = "default",
    workers: int = 1,
    gpus: int = 0,
    state: str = "",
    message: str = "",
    created: datetime = datetime(2026, 1, 1, tzinfo=UTC),
) -> Raw:
    """A job; `state` is the type of its newest condition."""
    container: Raw = {"name": _CONTAINERS[kind], "image": "python:3.12"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    template = {"spec": {"containers": [container]}}
    condition = {"type": state, "status": "True", "reason": "Test", "message": message}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": timestamp(created),
        },
        "spec": {_REPLICAS[kind]: {"Worker": {"replicas": workers, "template": template}}},
        **({"status": {"conditions": [condition]}} if state else {}),
    }


def pod(
    name: str,
    *,
    job: str = "",
    kind: str = "TFJob",
    namespace: str = "default",
    node: str = "",
    gpus: int = 0,
    cpu: str = "0",
    phase: str = "",
    message: str = "",
    bound: datetime | None = None,
    annotations: dict[str, str] | None = None,
    created: datetime = datetime(2026, 1, 1, tzinfo=UTC),
) -> Pod:
    """A pod; `message` is why it has no node."""
    owner = OwnerReference(kind=kind, name=job, uid=f"uid-{job}", controller=True)
    scheduled = Condition(
        type="PodScheduled",
        status="True" if node else "False",
        message=message,
        last_transition_time=bound,
    )
    resources = ResourceRequirements(
        limits={"nvidia.com/gpu": gpus} if gpus else {}, requests={"cpu": cpu}
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{name}",
            creation_timestamp=created,
            annotations=annotations or {},
            owner_references=(owner,) if job else (),
        ),
        spec=PodSpec(node_name=node, containers=(Container(resources=resources),)),
        status=PodStatus(
            phase=phase or ("Running" if node else "Pending"),
            conditions=(scheduled,) if node or message else (),
        ),
    )


def node(
    name: str,
    *,
    gpus: int = 0,
    cpu: str = "4",
    ready: str = "True",
    cordoned: bool = False,
    taints: tuple[Taint, ...] = (),
    labels: dict[str, str] | None = None,
    conditions: tuple[Condition, ...] = (),
) -> Node:
    allocatable: Resources = {"cpu": cpu, **({"nvidia.com/gpu": gpus} if gpus else {})}
    own = (
        Condition(type="Ready", status=ready, message="" if ready == "True" else "no heartbeat"),
    )
    return Node(
        metadata=ObjectMeta(name=name, labels=labels or {}),
        spec=NodeSpec(unschedulable=cordoned, taints=taints),
        status=NodeStatus(allocatable=allocatable, conditions=(*own, *conditions)),
    )
