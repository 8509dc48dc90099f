"""Draining a backlog of gangs on a real kube-apiserver: Muster beside kube-scheduler.

Nodes are objects only, the backlog exists before a scheduler starts, and time counts from the
start of its process to the last bind seen by an independent watch. Each side has an API server of
its own and uses the same kind of token: the bare loop that only binds (the ceiling, counted from
its first bind), Muster, and kube-scheduler with its client limits raised, plain and in its native
gang mode. The sides take turns in every round. A fifth side, Muster with aiohttp as its HTTP
client, runs only by name.

`python -m benchmarks.scheduler_backlog [NODES [GANGS [SIZE]]] [--rounds N] [NAME]…` prints the
rates, by default of all four.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import uvloop
from tests.controlplane.build import build
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig

from benchmarks.ratio import Ratio
from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.objects.kinds import CRDS, NODES, PODS
from kubekit.request_errors import NotFound
from muster.contract.crds import load_all
from muster.contract.pod_groups import NATIVE_POD_GROUPS, VOLCANO_POD_GROUPS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw

IN_FLIGHT = 32
LIMITS = ("--kube-api-qps=5000", "--kube-api-burst=5000")
NAMESPACE = "default"
SIDES = ("bare", "muster", "plain", "native")
MUSTER = ("muster", "aiohttp")
"""The sides that are Muster: with its own HTTP client, and with aiohttp."""
ROUNDS = 3


@dataclass(frozen=True)
class Size:
    """The size of the backlog."""

    nodes: int = 500
    gangs: int = 200
    size: int = 16

    @property
    def pods(self) -> int:
        return self.gangs * self.size


@dataclass(frozen=True)
class Drain:
    """Pods per second, from the start of the process and from the first bind.

    `processor_seconds` and `memory` (bytes) are what a side in Python used, else 0.
    """

    from_start: float
    from_first: float
    processor_seconds: float = 0.0
    memory: int = 0


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str = ""


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""


class _Seen(msgspec.Struct, gc=False):
    """The fields of a pod that the watch of a run reads, so that it costs the run little."""

    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


def run(size: Size | None = None, rounds: int = ROUNDS) -> list[Ratio]:
    """The rows of `make bench`."""
    size = size or Size()
    drains = [measure(size) for _ in range(rounds)]
    bars = {
        "plain": ("kube-scheduler", ">= 2" if size.nodes < 2000 else ">= 4"),
        "native": ("its native gangs", ">= 6"),
    }
    beside = [
        Ratio(
            f"backlog vs {peer}",
            [(drain["muster"].from_start, drain[name].from_start) for drain in drains],
            "pods/s",
            bar,
        )
        for name, (peer, bar) in bars.items()
    ]
    ceilings = [drain["bare"].from_first for drain in drains]
    ours = [drain["muster"] for drain in drains]
    return [
        *beside,
        Ratio(
            "backlog vs bare binds",
            [(drain.from_start, top) for drain, top in zip(ours, ceilings, strict=True)],
            "pods/s",
            ">= 0.55",
        ),
        Ratio(
            "backlog from the first bind vs bare binds",
            [(drain.from_first, top) for drain, top in zip(ours, ceilings, strict=True)],
            "pods/s",
            ">= 0.75",
        ),
    ]


def measure(size: Size, which: Iterable[str] = SIDES) -> dict[str, Drain]:
    """Each side in turn."""
    drains = {}
    for name in which:
        with ControlPlane(build()) as plane:
            as_token(plane)
            drains[name] = uvloop.run(_measure(plane, size, name))
        rates = drains[name]
        print(
            f"{name}: {rates.from_start:,.0f} pods/s, {rates.from_first:,.0f} from the first bind,"
            f" {rates.processor_seconds:.2f} s of processor time, {rates.memory >> 20} MiB",
            flush=True,
        )
    return drains


def as_token(plane: ControlPlane) -> None:
    """Use a token on every side: a client certificate costs the server a check per request."""
    config = kubeconfig(plane.url, plane.ca_file.read_bytes(), token=plane.token)
    plane.kubeconfig.write_text(json.dumps(config))


async def _measure(plane: ControlPlane, size: Size, name: str) -> Drain:
    async with Client.connect(load(plane.kubeconfig)) as client:
        await create_all(client, [(CRDS, crd) for crd in load_all()])
        await create_all(client, [(NODES, node(i)) for i in range(size.nodes)])
        await _served(client, VOLCANO_POD_GROUPS)
        await create_all(client, _groups(size, name))
        await create_all(client, _pods(size, name))
        return await _drain(plane, client, size, name)


async def _served(client: Client, kind: Kind[Any]) -> None:
    """Wait until the server knows a kind whose definition was just created."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(NotFound):
                await client.list(scanned(kind), NAMESPACE)
                return
            await asyncio.sleep(0.05)


async def _drain(plane: ControlPlane, client: Client, size: Size, name: str) -> Drain:
    """Start a side and watch until every pod has its node."""
    version = (await client.list(scanned(PODS), NAMESPACE)).resource_version
    bound: list[float] = []
    used = (0.0, 0)
    started = time.monotonic()
    with _side(plane, name) as process:
        async with asyncio.timeout(900):
            async for _ in binds(client, version):
                bound.append(time.monotonic())
                if len(bound) == size.pods:
                    break
        if process is not None:
            times = process.cpu_times()
            used = times.user + times.system, process.memory_info().rss
    from_start = size.pods / (bound[-1] - started)
    return Drain(from_start, size.pods / max(bound[-1] - bound[0], 1e-9), *used)


async def binds(client: Client, version: str) -> AsyncIterator[None]:
    """Every bind after that version, in an endless stream."""
    while True:  # The server ends watches that fall behind; they resume.
        async for event in client.watch(scanned(PODS), NAMESPACE, since=version):
            version = event.object.metadata.resource_version
            # A bind is the first change with a node; the status is written later.
            if event.type == "MODIFIED" and event.object.spec.node_name:
                yield


@contextlib.contextmanager
def _side(plane: ControlPlane, name: str) -> Iterator[psutil.Process | None]:
    """Run the process that binds; yields it if it is one in Python."""
    if name in ("plain", "native"):
        plane.start_scheduler(*LIMITS)  # It ends with the control plane.
        yield None
        return
    module = "muster" if name == "muster" else "benchmarks.with_aiohttp"
    command = ["-m", module, "scheduler", "--kubeconfig", str(plane.kubeconfig)]
    if name == "bare":
        command = ["-m", "benchmarks.bare_bind_loop", plane.url, str(plane.ca_file), plane.token]
    child = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)
    try:
        yield psutil.Process(child.pid)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(20)


def scanned(kind: Kind[Any]) -> Kind[_Seen]:
    """A kind of which only node name and version are read."""
    return kind.read_as(_Seen)


async def create_all(client: Client, objects: Iterable[tuple[Kind[Any], Raw]]) -> None:
    """Create all objects, some at a time."""
    waiting = iter(objects)

    async def worker() -> None:
        for kind, body in waiting:
            await client.create(scanned(kind), body)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


def _groups(size: Size, name: str) -> list[tuple[Kind[Any], Raw]]:
    kind: Kind[Any] = NATIVE_POD_GROUPS if name == "native" else VOLCANO_POD_GROUPS
    spec: Raw = {"minMember": size.size}
    if name == "native":
        spec = {"schedulingPolicy": {"gang": {"minCount": size.size}}}
    numbers = range(size.gangs) if name in (*MUSTER, "native") else ()
    return [(kind, _object(kind.api_version, kind.kind, f"g{g:04d}", spec)) for g in numbers]


def gang_group(name: str, size: int) -> Raw:
    """The object that declares a gang of Muster's."""
    kind = VOLCANO_POD_GROUPS
    return _object(kind.api_version, kind.kind, name, {"minMember": size})


def _pods(size: Size, name: str) -> list[tuple[Kind[Any], Raw]]:
    return [
        (PODS, gang_pod(f"g{number // size.size:04d}", number % size.size, name))
        for number in range(size.pods)
    ]


def _object(api_version: str, kind: str, name: str, spec: Raw) -> Raw:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def node(number: int) -> Raw:
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


def gang_pod(gang: str, number: int, scheduler: str = "muster") -> Raw:
    """A member of a gang, as one of the sides needs it."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    spec: Raw = {
        "schedulerName": "default-scheduler" if scheduler in ("plain", "native") else "muster",
        "containers": [{"name": "main", "image": "none", "resources": resources}],
    }
    if scheduler == "native":
        spec["schedulingGroup"] = {"podGroupName": gang}
    body = _object("v1", "Pod", f"{gang}-{number}", spec)
    if scheduler in MUSTER:
        body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": gang}
    return body


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduler_backlog")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    size = Size(*(int(word) for word in given.words if word.isdigit()))
    names = [word for word in given.words if not word.isdigit()]
    for _ in range(given.rounds):
        measure(size, names or SIDES)


if __name__ == "__main__":
    main()
