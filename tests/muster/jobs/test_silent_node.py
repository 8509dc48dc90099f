"""What a real cluster writes into the pods of a node that falls silent is what we read there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.objects.core import Pod
from kubekit.objects.kinds import NODES, PODS
from kubekit.objects.meta import Key, condition_is_true
from muster.jobs.view.instance import instance
from tests.controlplane.control_plane import ControlPlane
from tests.waiting import eventually

pytestmark = [pytest.mark.kube, pytest.mark.slow]
P = Key("default", "p")
MANIFEST = {
    "metadata": {"name": P.name, "namespace": P.namespace},
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
}


async def test_a_pod_tells_that_its_node_fell_silent(control_plane_binaries: Path) -> None:
    with ControlPlane(control_plane_binaries) as plane:
        plane.start_controller_manager("--node-monitor-grace-period=6s", "--node-monitor-period=1s")
        plane.add_node("n1")
        plane.start_kwok()
        async with Client.connect(load(plane.kubeconfig)) as client:

            async def ready() -> bool:
                node = await client.get(NODES, Key("", "n1"))
                return condition_is_true(node.status.conditions, "Ready")

            async def running() -> bool:
                return (await client.get(PODS, P)).status.phase == "Running"

            async def silent() -> Pod | None:
                pod = await client.get(PODS, P)
                return pod if pod.unreachable_since is not None else None

            await eventually(ready, what="the node is ready")
            await client.create(PODS, MANIFEST)
            await eventually(running, what="the pod runs")
            assert await silent() is None
            plane.kill_kwok()
            pod = await eventually(silent, what="the node is given up", timeout=60)

    assert pod is not None
    assert instance(pod).reason == "node n1 does not answer"
