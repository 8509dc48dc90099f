"""The cost of `arena list` with a few jobs and with a thousand, against an empty Python program.

    python -m benchmarks arena_list

The API server runs in a process of its own (`python -m benchmarks.arena_list FOLDER`); a
namespace holds few jobs, another many, each job with a chief that waits and two workers.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from benchmarks.ratio import Ratio, in_turn, seconds
from kubekit.client.auth import kube_config
from kubekit.client.client import Client
from kubekit.objects.kinds import CRDS, NAMESPACES, PODS
from localkube.apiserver.server import ApiServer
from muster.contract import crds
from muster.contract.job_kinds import TFJOBS
from muster.jobs import names

if TYPE_CHECKING:
    from collections.abc import Iterator

ARENA = Path(sys.executable).with_name("arena")
FEW, MANY = 5, 1_000
OVER_PYTHON, WITH_MANY = 150.0, 500.0
"""Milliseconds that are allowed, on any machine: over Python's own start with few jobs, and with
many."""


def run() -> list[Ratio]:
    with _server() as kubeconfig:
        uvloop.run(_fill(kubeconfig))
        few = _rounds(kubeconfig, "few")
        many = _rounds(kubeconfig, "many")
    over = [(ours - python, OVER_PYTHON) for ours, python in few]
    whole = [(ours, WITH_MANY) for ours, _ in many]
    return [
        Ratio(f"arena list, {FEW} jobs, beyond python -c pass", over, "ms", "<= 1.0"),
        Ratio(f"arena list, {MANY:,} jobs", whole, "ms", "<= 1.0"),
    ]


def _rounds(kubeconfig: Path, namespace: str) -> list[tuple[float, float]]:
    arena = [str(ARENA), "list", "-n", namespace, "--kubeconfig", str(kubeconfig)]
    return in_turn(
        lambda: _milliseconds(arena),
        lambda: _milliseconds([sys.executable, "-c", "pass"]),
        rounds=25,
    )


def _milliseconds(command: list[str]) -> float:
    return 1e3 * seconds(lambda: subprocess.run(command, capture_output=True, check=True))


# -- the server and what is on it ----------------------------------------------------------------


@contextmanager
def _server() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        command = [sys.executable, "-m", "benchmarks.arena_list", name]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            yield Path(process.stdout.readline().strip())


async def _serve(folder: Path) -> None:
    """Run until standard input closes; prints the path of the kubeconfig."""
    server = ApiServer(folder)
    await server.start()
    kubeconfig = folder / "kubeconfig"
    server.credentials.write_kubeconfig(kubeconfig, server.url)
    print(kubeconfig, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop()


async def _fill(kubeconfig: Path) -> None:
    async with Client.connect(kube_config.load(kubeconfig)) as client:
        for crd in crds.load_all():
            await client.create(CRDS.read_as(dict), crd)
        for namespace, count in (("few", FEW), ("many", MANY)):
            await client.create(NAMESPACES.read_as(dict), {"metadata": {"name": namespace}})
            async with asyncio.TaskGroup() as group:
                for number in range(count):
                    group.create_task(_job(client, namespace, f"job-{number}"))


async def _job(client: Client, namespace: str, name: str) -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    roles = {"Worker": {"replicas": 2, "template": template}, "Chief": {"template": template}}
    body: dict[str, Any] = {"metadata": {"name": name}, "spec": {"tfReplicaSpecs": roles}}
    job = await client.create(TFJOBS, body, namespace=namespace)
    owner = {
        "apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind, "controller": True,
        "name": name, "uid": job["metadata"]["uid"],
    }  # fmt: skip
    for role, index in (("chief", 0), ("worker", 0), ("worker", 1)):
        metadata = {
            "name": names.replica(name, role, index),
            "labels": names.labels("tfjob-controller", name, role, index),
            "ownerReferences": [owner],
        }
        pod = {"metadata": metadata, "spec": template["spec"]}
        await client.create(PODS.read_as(dict), pod, namespace=namespace)


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1])))
