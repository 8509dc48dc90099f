"""One running scheduler on a large cluster: the latency of binds, and the cost of waiting gangs.

In turn, on one real kube-apiserver: gangs of 16 that arrive on an idle cluster, one gang of 2,000,
200 gangs that wait while no object changes, and the memory with 10,000 pods. The peer in each row
is the limit. `python -m benchmarks.scheduler_latency [NODES]` prints the rows.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from tests.controlplane.build import build
from tests.controlplane.control_plane import ControlPlane

from benchmarks.ratio import Ratio
from benchmarks.scheduler_backlog import (
    NAMESPACE,
    as_token,
    binds,
    create_all,
    gang_group,
    gang_pod,
    node,
    scanned,
)
from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.objects.kinds import CRDS, NODES, PODS
from muster.contract.crds import load_all
from muster.contract.pod_groups import VOLCANO_POD_GROUPS

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

QUIET_SECONDS = 10.0
TURNS = 9
ALL_PODS = 10_000


def run(nodes: int = 5000) -> list[Ratio]:
    """The rows of `make bench`."""
    with ControlPlane(build()) as plane:
        as_token(plane)
        return uvloop.run(_measure(plane, nodes))


async def _measure(plane: ControlPlane, nodes: int) -> list[Ratio]:
    command = [sys.executable, "-m", "muster", "scheduler", "--kubeconfig", str(plane.kubeconfig)]
    async with Client.connect(load(plane.kubeconfig)) as client:
        await create_all(client, [(CRDS, crd) for crd in load_all()])
        await create_all(client, [(NODES, node(i)) for i in range(nodes)])
        child = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        try:
            await _until_bound(client, "warm", 16)
            idle = [await _until_bound(client, f"idle-{i}", 16) for i in range(TURNS)]
            large = await _until_bound(client, "large", 2000)
            busy = await _parked(client, child.pid)
            await _more_pods(client, nodes)
            memory = _memory(child.pid)
        finally:
            child.terminate()
            await child.wait()
    return [
        Ratio(
            "a gang of 16 bound, idle cluster", [(1e3 * t[1], 100.0) for t in idle], "ms", "<= 1"
        ),
        Ratio("first bind of a gang of 2,000", [(1e3 * large[0], 1000.0)], "ms", "<= 1"),
        Ratio("CPU with 200 gangs parked", [(busy, 1.0)], "%", "<= 1"),
        Ratio("memory with 10,000 pods", [(memory, 400.0)], "MB", "<= 1"),
    ]


async def _until_bound(client: Client, name: str, size: int) -> tuple[float, float]:
    """Submit a gang; seconds from its last pod's arrival to its first and its last bind."""
    version = (await client.list(scanned(PODS), NAMESPACE)).resource_version
    times: list[float] = []

    async def watch() -> None:
        async for _ in binds(client, version):
            times.append(time.monotonic())
            if len(times) == size:
                return

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        group.create_task(watch())
        await create_all(client, [(VOLCANO_POD_GROUPS, gang_group(name, size))])
        await create_all(client, [(PODS, gang_pod(name, i)) for i in range(size)])
        there = time.monotonic()
    return times[0] - there, times[-1] - there


async def _parked(client: Client, pid: int) -> float:
    """Percent of one CPU while 200 gangs wait and no object changes."""
    names = [f"parked-{i:03d}" for i in range(200)]
    await create_all(client, [(VOLCANO_POD_GROUPS, gang_group(name, 16)) for name in names])
    pods = [_impossible(gang_pod(name, i)) for name in names for i in range(16)]
    await create_all(client, [(PODS, pod) for pod in pods])
    while True:  # Until conditions, events and the line are written.
        before = _cpu(pid)
        await asyncio.sleep(QUIET_SECONDS)
        busy = 100 * (_cpu(pid) - before) / QUIET_SECONDS
        listing = await client.list(PODS, NAMESPACE)
        explained = sum(1 for p in listing.items if p.status.conditions and not p.spec.node_name)
        if explained >= len(pods):
            before = _cpu(pid)
            await asyncio.sleep(QUIET_SECONDS)
            return 100 * (_cpu(pid) - before) / QUIET_SECONDS
        print(f"{explained} of {len(pods)} pods have a reason, {busy:.0f} % CPU", flush=True)


def _impossible(pod: Raw) -> Raw:
    pod["spec"]["nodeSelector"] = {"there-is": "none"}
    return pod


async def _more_pods(client: Client, nodes: int) -> None:
    """Running pods, up to the given number."""
    there = len((await client.list(scanned(PODS), NAMESPACE)).items)
    extra = []
    for i in range(ALL_PODS - there):
        pod = gang_pod("running", i)
        pod["spec"]["nodeName"] = f"node-{i % nodes:05d}"
        extra.append((PODS, pod))
    await create_all(client, extra)
    await asyncio.sleep(2.0)


def _cpu(pid: int) -> float:
    """Seconds of CPU a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    """The most memory a process ever had, in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    for ratio in run(*map(int, sys.argv[1:2])):
        print(ratio.row())
