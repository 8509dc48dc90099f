"""A cluster with jobs that run and wait, and command lines that submit and apply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import NAMESPACES
from tests.controlplane.control_plane import ControlPlane
from tests.local_server import LocalServer
from tests.muster.cli.applier import Applier
from tests.muster.cli.fake_cluster import Scene, condition, job, pod
from tests.muster.cli.submitter import Submitter


def create_namespace(kubeconfig: Path) -> str:
    with BlockingClient(kube_config.load(kubeconfig)) as client:
        namespace = client.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "test-"}})
    return str(namespace["metadata"]["name"])


@pytest.fixture
def submitter(
    job_server: LocalServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Submitter:
    """A machine that submits to an API server where nothing acts on jobs."""
    submitter = Submitter(tmp_path, capsys, monkeypatch)
    submitter.namespace = create_namespace(job_server.kubeconfig)
    submitter.kubeconfig = job_server.kubeconfig
    return submitter


@pytest.fixture(scope="module")
def plain_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A local API server without the job kinds."""
    with LocalServer(tmp_path_factory.mktemp("plain")) as server:
        yield server


@pytest.fixture
def real_applier(
    control_plane: ControlPlane,
    fresh_namespace: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Applier:
    """On a real API server, which records the manager of every field."""
    return Applier(control_plane.kubeconfig, fresh_namespace, capsys, monkeypatch)


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.kube)])
def applier(
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Applier:
    """On the local API server and on a real one."""
    if request.param == "kubernetes":
        real: Applier = request.getfixturevalue("real_applier")
        return real
    server: LocalServer = request.getfixturevalue("plain_server")
    namespace = create_namespace(server.kubeconfig)
    return Applier(server.kubeconfig, namespace, capsys, monkeypatch)


@pytest.fixture
def busy(scene: Scene) -> Scene:
    """A running, a waiting and a finished job; a node with GPUs and a node without."""
    runs = condition(job("TFJob", "runs", {"Worker": 2}, gpus=2, age=90), "Running")
    waits = job("MPIJob", "waits", {"Launcher": 1, "Worker": 2}, gpus=4, age=30)
    done = condition(job("TFJob", "done", {"Worker": 1}, age=7200), "Succeeded", age=3600)
    running: dict[str, Any] = {"phase": "Running", "node": "big", "ip": "10.0.0.2", "gpus": 2}
    pods = [pod(runs, "worker", i, **running) for i in range(2)]
    pods += [pod(waits, "worker", i, gpus=4, why="too big") for i in range(2)]

    def node(name: str, ip: str, gpus: int) -> dict[str, Any]:
        return {
            "metadata": {"name": name},
            "status": {
                "allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": str(gpus)},
                "addresses": [{"type": "InternalIP", "address": ip}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    used = {"cpu": "250m", "memory": "1536Mi"}
    scene.objects = {
        "tfjobs": [done, runs],
        "mpijobs": [waits],
        "pods": pods,
        "nodes": [node("big", "10.0.0.2", 4), node("small", "10.0.0.1", 0)],
        "nodesusage": [{"metadata": {"name": "big"}, "usage": used}],
        "podsusage": [
            {
                "metadata": {"name": f"runs-worker-{i}", "namespace": "default"},
                "containers": [{"name": "c", "usage": used}],
            }
            for i in range(2)
        ],
    }
    return scene
