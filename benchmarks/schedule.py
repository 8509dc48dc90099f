"""Draining a backlog of gangs on a real kube-apiserver: Muster beside kube-scheduler.

Nodes are objects only, the backlog is there before a scheduler starts, and time counts from the
start of its process to the last bind seen by an independent watch. Each has an API server of its
own: the bare loop that only binds (the ceiling), Muster, and kube-scheduler with its client limits
raised, plain and in its native gang mode. `python -m benchmarks.schedule [NODES] [GANGS] [SIZE]
[NAME]…` prints the rates.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvloop
from tests.controlplane.build import build
from tests.controlplane.cluster import ControlPlane

from benchmarks.measure import Ratio
from muster.api.crds import load_all
from muster.api.kinds import CRDS, NATIVE_GROUPS, NODES, PODS, VOLCANO_GROUPS
from muster.kube.client import Client
from muster.kube.config import load
from muster.kube.informer import Informer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from muster.api.core import Pod
    from muster.api.meta import Key, Raw

IN_FLIGHT = 48
LIMITS = ("--kube-api-qps=5000", "--kube-api-burst=5000")
NAMESPACE = "default"
EVERYBODY = ("bare", "muster", "plain", "native")


@dataclass(frozen=True)
class Size:
    """How much there is to do."""

    nodes: int = 500
    gangs: int = 200
    size: int = 16

    @property
    def pods(self) -> int:
        return self.gangs * self.size


@dataclass(frozen=True)
class Drain:
    """How long it took, from the start and from the first bind, in pods per second."""

    from_start: float
    from_first: float


def run() -> list[Ratio]:
    """What `make bench` shows."""
    found = measure(Size())
    ours, peers = found["muster"].from_start, found
    bars = {"plain": ">= 2", "native": ">= 6", "bare": ">= 0.55"}
    said = {"plain": "kube-scheduler", "native": "its native gangs", "bare": "bare binds"}
    return [
        *(
            Ratio(f"backlog vs {said[name]}", [(ours, peers[name].from_start)], "pods/s", bar)
            for name, bar in bars.items()
        ),
        Ratio(
            "from the first bind vs bare binds",
            [(found["muster"].from_first, found["bare"].from_start)],
            "pods/s",
            ">= 0.75",
        ),
    ]


def measure(size: Size, which: tuple[str, ...] = EVERYBODY) -> dict[str, Drain]:
    """Each scheduler in turn."""
    found = {}
    for name in which:
        with ControlPlane(build()) as plane:
            found[name] = uvloop.run(_measure(plane, size, name))
        rates = found[name]
        print(
            f"{name}: {rates.from_start:,.0f} pods/s, {rates.from_first:,.0f} from the first bind"
        )
    return found


async def _measure(plane: ControlPlane, size: Size, name: str) -> Drain:
    async with Client.connect(load(plane.kubeconfig), max_in_flight=64) as client:
        await _all([client.create(CRDS, crd) for crd in load_all()])
        await _all([client.create(NODES, _node(i)) for i in range(size.nodes)])
        await _backlog(client, size, name)
        return await _drain(plane, client, size, name)


async def _drain(plane: ControlPlane, client: Client, size: Size, name: str) -> Drain:
    first = last = 0.0
    left = size.pods
    done = asyncio.Event()

    def seen(change: Any) -> None:
        nonlocal first, last, left
        new, old = change.new, change.old
        if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
            last = time.monotonic()
            first = first or last
            left -= 1
            if left == 0:
                done.set()

    informer: Informer[Pod] = Informer(client, PODS)
    informer.subscribe(seen)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(informer.run())
        await informer.synced()
        started = time.monotonic()
        async with _scheduler(plane, client, name, informer):
            async with asyncio.timeout(600):
                await done.wait()
        watch.cancel()
    return Drain(size.pods / (last - started), size.pods / max(last - first, 1e-9))


@contextlib.asynccontextmanager
async def _scheduler(
    plane: ControlPlane, client: Client, name: str, pods: Informer[Pod]
) -> AsyncIterator[None]:
    if name == "bare":
        waiting = [(p.metadata.key, p.metadata.uid) for p in pods.all()]
        nodes = [n.metadata.name for n in (await client.list(NODES)).items]
        async with asyncio.TaskGroup() as group:
            group.create_task(_bind_all(client, waiting, nodes))
            yield
        return
    with _process(plane, name):
        yield


async def _bind_all(client: Client, pods: list[tuple[Key, str]], nodes: list[str]) -> None:
    await _all(
        [client.bind(key, uid=uid, node=nodes[i % len(nodes)]) for i, (key, uid) in enumerate(pods)]
    )


@contextlib.contextmanager
def _process(plane: ControlPlane, name: str) -> Iterator[None]:
    if name == "muster":
        command = [
            sys.executable,
            "-m",
            "muster",
            "scheduler",
            "--kubeconfig",
            str(plane.kubeconfig),
        ]
        child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(20)
        return
    plane.start_scheduler(*LIMITS)  # ends with the control plane
    yield


async def _backlog(client: Client, size: Size, name: str) -> None:
    kind = NATIVE_GROUPS if name == "native" else VOLCANO_GROUPS
    spec: Raw = {"minMember": size.size}
    if name == "native":
        spec = {"schedulingPolicy": {"gang": {"minCount": size.size}}}
    groups = [
        client.create(kind, _object(kind.api_version, kind.kind, f"g{g:04d}", spec))
        for g in range(size.gangs)
        if name in ("muster", "native")
    ]
    await _all(groups)
    await _all(
        [
            client.create(PODS, _pod(name, f"g{g:04d}", i))
            for g in range(size.gangs)
            for i in range(size.size)
        ]
    )


async def _all(calls: list[Any]) -> None:
    """Await all calls, some at a time."""
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(call: Any) -> None:
        async with slots:
            await call

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(one(call))


def _object(api_version: str, kind: str, name: str, spec: Raw) -> Raw:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _node(number: int) -> Raw:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    name = f"node-{number:05d}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": room,
            "capacity": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(scheduler: str, gang: str, number: int) -> Raw:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    spec: Raw = {
        "schedulerName": "default-scheduler" if scheduler in ("plain", "native") else "muster",
        "containers": [{"name": "main", "image": "none", "resources": resources}],
    }
    if scheduler == "native":
        spec["schedulingGroup"] = {"podGroupName": gang}
    body = _object("v1", "Pod", f"{gang}-{number}", spec)
    if scheduler == "muster":
        body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": gang}
    return body


if __name__ == "__main__":
    names = tuple(a for a in sys.argv[1:] if not a.isdigit())
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    measure(Size(*numbers), names or EVERYBODY)
