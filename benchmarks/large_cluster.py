"""A large cluster as objects, with its dashboard, for the benchmark and the test at that size.

    python -m benchmarks.large_cluster FOLDER

The process has the API server and the dashboard on one event loop, as `arena up` has them. It
prints one line of JSON, `Addresses`, and runs until standard input closes. Nothing acts on the
objects.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import uvloop

from kubekit.client.auth import kube_config
from kubekit.client.client import Client
from kubekit.objects.kinds import CONFIG_MAPS, CRDS, EVENTS, NAMESPACES, NODES, PODS
from kubekit.objects.meta import Key, Raw, timestamp
from localkube.apiserver.server import ApiServer
from muster.contract import crds, waiting_line_format
from muster.contract.gang_dialects import PDB
from muster.contract.job_kinds import PYTORCHJOBS, TFJOBS
from muster.jobs import names
from muster.web import server as dashboard
from muster.web.access.gate import Policy
from muster.web.access.keys import Keys, new_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.kinds import Kind

GPUS_PER_NODE = 8
NAMESPACE_COUNT = 10
_AT_ONCE = 64
"""Jobs that are created at the same time."""


class Size(NamedTuple):
    """Numbers of objects."""

    nodes: int = 1_000
    running: int = 1_000
    """Jobs with four pods of one GPU each."""
    waiting: int = 500
    """Jobs with two pods that no node has room for."""
    finished: int = 500

    @property
    def jobs(self) -> int:
        return self.running + self.waiting + self.finished

    @property
    def pods(self) -> int:
        return 4 * self.running + 2 * self.waiting


class Dashboard(NamedTuple):
    """A running dashboard of a large cluster."""

    pid: int
    kubeconfig: Path
    url: str
    keys: Path

    def address(self) -> str:
        """An address that logs one browser in."""
        return f"{self.url}/?token={new_token(Keys.read(self.keys))}"


@contextmanager
def serving(folder: Path) -> Iterator[Dashboard]:
    """The cluster in this folder and its dashboard, in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.large_cluster", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        answer = json.loads(process.stdout.readline())
        kubeconfig, keys = Path(answer["kubeconfig"]), Path(answer["keys"])
        yield Dashboard(process.pid, kubeconfig, answer["url"], keys)


async def _serve(folder: Path) -> None:
    server = ApiServer(folder)
    await server.start()
    kubeconfig, keys = folder / "kubeconfig", folder / "dashboard.keys"
    server.credentials.write_kubeconfig(kubeconfig, server.url)
    policy, endpoint = Policy(Keys.renew(keys)), kube_config.load(kubeconfig)
    with dashboard.listen(0) as listener:
        serving = asyncio.create_task(
            dashboard.serve(
                listener, endpoint, policy, server.listeners.serve, server.listeners.connect
            )
        )
        answer = {
            "kubeconfig": str(kubeconfig),
            "url": dashboard.url_of(listener),
            "keys": str(keys),
        }
        print(json.dumps(answer), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    await server.stop()


# -- the objects ---------------------------------------------------------------------------------


async def fill(kubeconfig: Path, size: Size) -> None:
    """Create the objects of a cluster of this size."""
    async with Client.connect(kube_config.load(kubeconfig)) as client:
        for crd in crds.load_all():
            await client.create(CRDS.read_as(dict), crd)
        for number in range(NAMESPACE_COUNT):
            await client.create(NAMESPACES.read_as(dict), {"metadata": {"name": _team(number)}})
        async with asyncio.TaskGroup() as group:
            for number in range(size.nodes):
                group.create_task(_node(client, number))
        writer = _Jobs(client, size)
        async with asyncio.TaskGroup() as group:
            for number in range(size.jobs):
                group.create_task(writer.write(number))
        await _line(client, size)


def _team(number: int) -> str:
    return f"team-{number % NAMESPACE_COUNT}"


async def _node(client: Client, number: int) -> None:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(GPUS_PER_NODE)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    name = f"node-{number:04}"
    body = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }
    kind = NODES.read_as(dict)
    await client.create(kind, body)
    await client.patch(kind, Key("", name), {"status": body["status"]}, subresource="status")


class _Jobs:
    """Writes jobs: first those that run, then those that wait, then those that have finished."""

    def __init__(self, client: Client, size: Size) -> None:
        self._client, self._size = client, size
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def write(self, number: int) -> None:
        async with self._slots:
            if number < self._size.running:
                await self._job(number, 4, "Running", "JobRunning", "the job runs")
            elif number < self._size.running + self._size.waiting:
                await self._job(number, 2, "Created", "JobCreated", "the job is created")
            else:
                await self._job(number, 0, "Succeeded", "JobSucceeded", "the job has succeeded")

    async def _job(self, number: int, pods: int, state: str, reason: str, message: str) -> None:
        kind, field, container = _dialect(number)
        namespace, name = _team(number), f"job-{number:04}"
        limits = {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}
        resources = {"limits": limits, "requests": limits}
        spec = {"containers": [{"name": container, "image": "i", "resources": resources}]}
        roles = {"Worker": {"replicas": max(pods, 2), "template": {"spec": spec}}}
        body: Raw = {"metadata": {"name": name}, "spec": {field: roles}}
        job = await self._client.create(kind, body, namespace=namespace)
        condition = {
            "type": state, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": timestamp(datetime.now(UTC)),
        }  # fmt: skip
        await self._client.patch(
            kind,
            Key(namespace, name),
            {"status": {"conditions": [condition]}},
            subresource="status",
        )
        for index in range(pods):
            await self._pod(job, kind, index, spec, f"node-{number % self._size.nodes:04}")

    async def _pod(self, job: Raw, kind: Kind[Raw], index: int, spec: Raw, node: str) -> None:
        metadata = job["metadata"]
        name = names.replica(metadata["name"], "worker", index)
        key = Key(metadata["namespace"], name)
        owner = {
            "apiVersion": kind.api_version, "kind": kind.kind, "controller": True,
            "name": metadata["name"], "uid": metadata["uid"],
        }  # fmt: skip
        labels = names.labels(f"{kind.kind.lower()}-controller", metadata["name"], "worker", index)
        waits = index < 2 and int(metadata["name"].partition("-")[2]) >= self._size.running
        body = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            "spec": spec if waits else {**spec, "nodeName": node},
        }
        pods = PODS.read_as(dict)
        await self._client.create(pods, body, namespace=key.namespace)
        if waits:
            return await self._event(key)
        started = timestamp(datetime.now(UTC) - timedelta(minutes=5))
        container = {
            "name": spec["containers"][0]["name"], "image": "i", "imageID": "i", "ready": True,
            "restartCount": 0, "state": {"running": {"startedAt": started}},
        }  # fmt: skip
        status = {"phase": "Running", "startTime": started, "containerStatuses": [container]}
        await self._client.patch(pods, key, {"status": status}, subresource="status")
        return None

    async def _event(self, pod: Key) -> None:
        body = {
            "metadata": {"name": f"{pod.name}.1"},
            "involvedObject": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name},
            "reason": "FailedScheduling", "message": _REASON, "type": "Warning",
            "lastTimestamp": timestamp(datetime.now(UTC)),
        }  # fmt: skip
        await self._client.create(EVENTS.read_as(dict), body, namespace=pod.namespace)


_REASON = "0/1000 nodes have room for 2 workers: 1000 nodes lack nvidia.com/gpu"


def _dialect(number: int) -> tuple[Kind[Raw], str, str]:
    if number % 2:
        return PYTORCHJOBS, "pytorchReplicaSpecs", "pytorch"
    return TFJOBS, "tfReplicaSpecs", "tensorflow"


async def _line(client: Client, size: Size) -> None:
    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = [
        {
            "gang": f"{_team(number)}/job-{number:04}",
            "dialect": PDB.name,
            "place": place,
            "code": "Unschedulable",
            "reason": _REASON,
            "since": timestamp(now - timedelta(seconds=place)),
            "least": 2,
            "pending": 2,
        }
        for place, number in enumerate(range(size.running, size.running + size.waiting), 1)
    ]
    body = {
        "metadata": {"name": waiting_line_format.CONFIG_MAP},
        "data": {waiting_line_format.DATA_KEY: json.dumps(rows)},
    }
    kind = CONFIG_MAPS.read_as(dict)
    await client.create(kind, body, namespace=waiting_line_format.NAMESPACE)


if __name__ == "__main__":
    gc.set_threshold(50_000)  # as `arena` does
    uvloop.run(_serve(Path(sys.argv[1])))
