"""Pods end although their shims hang; the tests stop the shims with SIGSTOP."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from localkube.node.runtime import shim_client
from localkube.node.standalone.linux import kernel
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import LocalNode, Raw, local_node, needs_namespaces
from tests.localkube.node.pod_builders import container, manifest
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, needs_namespaces]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only a second for shims: those that do not hang exit far sooner."""
    monkeypatch.setattr("localkube.node.runtime.container_runtime._EXIT_TIMEOUT", 1.0)


async def hang(local: LocalNode, pod: Raw) -> int:
    """Make the shim of the pod's container hang; returns its PID."""
    folder = local.home / "pods" / pod["metadata"]["uid"] / "containers/main/0"
    shim = int(json.loads((folder / "started").read_text())["shim"])
    os.kill(shim, signal.SIGSTOP)
    return shim


@pytest.mark.parametrize("runtime", ["namespaces", "plain"])
async def test_a_pod_is_deleted_although_its_shim_hangs(tmp_path: Path, runtime: str) -> None:
    async with local_node(tmp_path, runtime=runtime) as local:
        await local.run(manifest("p", container("main", "sleep", "1000")))
        pod = await local.phase("p", "Running")
        shim = await hang(local, pod)

        await local.client.delete(PODS, Key("default", "p"), grace=1)
        await local.gone("p")

        assert kernel.start_time(shim) == 0
        await local.run(manifest("p", container("main", "true")))
        assert (await local.ended("p"))["exitCode"] == 0
    assert not leftovers.of(tmp_path)


async def test_the_cluster_stops_although_a_shim_hangs(
    tmp_path: Path,
) -> None:
    async with local_node(tmp_path) as local:
        sleeper = container("main", "sleep", "1000")
        await local.run(manifest("p", sleeper, terminationGracePeriodSeconds=1))
        await hang(local, await local.phase("p", "Running"))

    assert not leftovers.of(tmp_path)


async def test_a_pod_that_lost_its_first_process_restarts_although_its_shim_hangs(
    tmp_path: Path,
) -> None:
    async with local_node(tmp_path) as local:
        sleeper = container("main", "sleep", "1000")
        await local.run(manifest("p", sleeper, restartPolicy="Always"))
        pod = await local.phase("p", "Running")
        await hang(local, pod)
        record = local.home / "pods" / pod["metadata"]["uid"] / "pod"
        pause = json.loads(record.read_text())["pause"]
        os.kill(pause, signal.SIGKILL)
        # On a busy machine it begins to exit only when it gets a processor. Nobody reports that
        # while the shim hangs, so the pod loop must look after it, not before.
        await eventually(lambda: kernel.is_exiting(pause), what="the exit of the first process")
        label = {"metadata": {"labels": {"look": "again"}}}
        await local.client.patch(PODS, Key("default", "p"), label)

        def runs_again(pod: Raw) -> bool:
            status = pod["status"]["containerStatuses"][0]
            return status["restartCount"] == 1 and "running" in status["state"]

        await local.until("p", runs_again, "a second run")
    assert not leftovers.of(tmp_path)


async def test_only_the_shim_that_holds_the_lock_is_killed(tmp_path: Path) -> None:
    async with local_node(tmp_path) as local:
        await local.run(*(manifest(n, container("main", "sleep", "1000")) for n in ("a", "b")))
        pods = {name: await local.phase(name, "Running") for name in ("a", "b")}
        folders = {name: local.home / "pods" / p["metadata"]["uid"] for name, p in pods.items()}

        shim_client.kill_shim(folders["a"] / "containers/main/0")

        assert (await local.ended("a"))["reason"] == "ContainerStatusUnknown"
        assert (await local.pod("b"))["status"]["phase"] == "Running"
        assert kernel.start_time(local.pid(pods["b"]))
