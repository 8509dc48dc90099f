"""A real kube-apiserver with nodes of GPUs, the scheduler on it, and gangs in every dialect.

The tests in this folder use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.client.request import PatchType
from kubekit.objects.core import Pod
from kubekit.objects.kinds import CRDS, NODES, POD_DISRUPTION_BUDGETS, PODS, Kind
from kubekit.objects.meta import Key, Raw, condition_is_true, find_condition
from kubekit.request_errors import AlreadyExists
from muster.contract.crds import load_all
from muster.contract.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBE_BATCH_POD_GROUPS,
    NATIVE_POD_GROUPS,
    SIGS_POD_GROUPS,
    VOLCANO_POD_GROUPS,
)
from muster.scheduler.daemon import Options, run
from tests.controlplane.control_plane import ControlPlane
from tests.muster.words import tells
from tests.waiting import eventually

T = TypeVar("T")
GROUPS: dict[str, Kind[Any]] = {
    "native": NATIVE_POD_GROUPS,
    "volcano": VOLCANO_POD_GROUPS,
    "kube-batch": KUBE_BATCH_POD_GROUPS,
    "sigs": SIGS_POD_GROUPS,
    "coscheduling": COSCHEDULING_POD_GROUPS,
    "pdb": POD_DISRUPTION_BUDGETS,
}
DIALECTS = (*GROUPS, "labels", "koordinator")


def options_reporting_at_once(plane: ControlPlane, more: str = "") -> Options:
    """A scheduler that says again at once what has changed, not only after half a minute.

    `more` are further settings, as YAML.
    A gang whose pods come slowly is first said to lack members: nobody waits for the next word.
    """
    settings = plane.folder / "scheduler.yaml"
    settings.write_text(f"reportEvery: 0\n{more}")
    return Options(config=settings)


@asynccontextmanager
async def scheduling(plane: ControlPlane, options: Options | None = None) -> AsyncIterator[Client]:
    """The scheduler runs against the cluster; yields a client of one's own."""
    endpoint = load(plane.kubeconfig)
    stop = asyncio.Event()
    async with (
        Client.connect(endpoint) as mine,
        Client.connect(endpoint) as its,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(run(its, options or options_reporting_at_once(plane), stop))
        try:
            yield mine
        finally:
            stop.set()


async def eventually_true(check: Callable[[], Awaitable[T]], what: str, timeout: float = 60.0) -> T:
    """The first truthy answer of a coroutine."""
    return await eventually(check, what=what, timeout=timeout)


async def install_crds(client: Client) -> None:
    """Every CRD of ours, and wait until they are served."""
    for crd in load_all():
        try:
            await client.create(CRDS, crd)
        except AlreadyExists:
            continue

    async def served() -> bool:
        listing = await client.list(CRDS.read_as(dict))
        return all(
            any(
                c["type"] == "Established" and c["status"] == "True"
                for c in (item.get("status", {}).get("conditions") or ())
            )
            for item in listing.items
        )

    await eventually_true(served, what="CRDs established")


async def add_nodes(client: Client, *names: str, gpus: int) -> None:
    for name in names:
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        await client.create(
            NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": metadata,
                "status": {
                    "allocatable": room,
                    "capacity": room,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )


async def remove_nodes(client: Client) -> None:
    for node in (await client.list(NODES)).items:
        await client.delete(NODES, node.metadata.key)


async def declare(client: Client, dialect: str, namespace: str, name: str, minimum: int) -> None:
    """The group object of a gang, in dialects that have one."""
    kind = GROUPS.get(dialect)
    if kind is None:
        return
    if dialect == "native":
        spec: Raw = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    elif dialect == "pdb":
        spec = {"minAvailable": minimum, "selector": {"matchLabels": {"gang": name}}}
    else:
        spec = {"minMember": minimum}
    await client.create(
        kind,
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        },
    )


def member(dialect: str, namespace: str, gang: str, name: str, minimum: int, gpus: int) -> Raw:
    """A pod of a gang."""
    annotations: dict[str, str] = {}
    labels = {"gang": gang}
    spec: Raw = {}
    if dialect in ("volcano", "kube-batch", "sigs"):
        annotations["scheduling.k8s.io/group-name"] = gang
    elif dialect == "coscheduling":
        labels["scheduling.x-k8s.io/pod-group"] = gang
    elif dialect == "native":
        spec["schedulingGroup"] = {"podGroupName": gang}
    elif dialect == "labels":
        labels["pod-group.scheduling.sigs.k8s.io/name"] = gang
        labels["pod-group.scheduling.sigs.k8s.io/min-available"] = str(minimum)
    elif dialect == "koordinator":
        annotations["gang.scheduling.koordinator.sh/name"] = gang
        annotations["gang.scheduling.koordinator.sh/min-available"] = str(minimum)
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": "kube-batchd" if dialect == "pdb" else "muster",
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            **spec,
        },
    }


async def submit(
    client: Client, dialect: str, namespace: str, gang: str, size: int, gpus: int
) -> None:
    """A gang of that many pods, all of which it needs."""
    await declare(client, dialect, namespace, gang, size)
    for i in range(size):
        await client.create(PODS, member(dialect, namespace, gang, f"{gang}-{i}", size, gpus))


async def pods_of(client: Client, namespace: str, gang: str) -> list[Pod]:
    listing = await client.list(PODS, namespace, labels=f"gang={gang}")
    return listing.items


async def bound(client: Client, namespace: str, gang: str) -> dict[str, str]:
    pods = await pods_of(client, namespace, gang)
    return {p.metadata.name: p.spec.node_name for p in pods if p.spec.node_name}


async def all_bound(client: Client, namespace: str, gang: str, size: int) -> None:
    async def check() -> bool:
        return len(await bound(client, namespace, gang)) == size

    await eventually_true(check, what=f"{gang} bound whole")


async def all_have_reason(client: Client, namespace: str, gang: str, *facts: str) -> None:
    """Wait until every pod says that it cannot be scheduled, and tells these facts."""

    def told(pod: Pod) -> bool:
        condition = find_condition(pod.status.conditions, "PodScheduled")
        if condition is None or condition_is_true((condition,), "PodScheduled"):
            return False
        assert condition.reason == "Unschedulable"
        return tells(condition.message, *facts)

    async def check() -> bool:
        pods = await pods_of(client, namespace, gang)
        return bool(pods) and all(map(told, pods))

    await eventually_true(check, what=f"{gang} told why it waits: {facts}")


async def fail(client: Client, namespace: str, name: str) -> None:
    """The pod fails, and its object stays behind."""
    await finish_pod(client, namespace, name, "Failed")


async def finish_pod(client: Client, namespace: str, name: str, phase: str) -> None:
    """The pod ends in that phase, and its object stays behind."""
    await client.patch(
        PODS,
        Key(namespace, name),
        {"status": {"phase": phase}},
        patch_type=PatchType.MERGE,
        subresource="status",
    )
