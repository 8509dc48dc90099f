"""A cluster with jobs that run and wait, and nodes that are partly used."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.fake_cluster import Scene, condition, job, pod


@pytest.fixture
def busy(scene: Scene) -> Scene:
    """A job that runs, one that waits and one that is done; two nodes, one with GPUs."""
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
