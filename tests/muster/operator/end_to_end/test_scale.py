"""`kubectl scale` of a job's workers, on a real kube-apiserver and on the local one."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Key, Raw
from muster.contract.job_kinds import JAXJOBS, PYTORCHJOBS
from tests.muster.operator.builders import replica
from tests.muster.operator.driver import condition, move, operating, pods
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from kubekit.client.client import Client
    from tests.muster.operator.clusters import RunningCluster

pytestmark = [pytest.mark.slow, pytest.mark.kube]


@pytest.fixture
def kubeconfig(running_cluster: RunningCluster, tmp_path: Path) -> Path:
    if running_cluster.plane is not None:
        return running_cluster.plane.kubeconfig
    authority = tmp_path / "ca.crt"
    authority.write_bytes(running_cluster.endpoint.ca or b"")
    token = running_cluster.endpoint.credentials.get().authorization.removeprefix("Bearer ")
    cluster = {"server": running_cluster.endpoint.url, "certificate-authority": str(authority)}
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(text))
    return file


@pytest.mark.parametrize(
    ("kind", "container"), [(PYTORCHJOBS, "pytorch"), (JAXJOBS, "jax")], ids=["pytorch", "jax"]
)
async def test_workers_are_scaled_and_counted(
    kind: Kind[Raw],
    container: str,
    client: Client,
    ns: str,
    kubeconfig: Path,
    control_plane_binaries: Path,
) -> None:
    async def kubectl(*words: str) -> str:
        result = await asyncio.to_thread(
            subprocess.run,
            [str(control_plane_binaries / "kubectl"), "-n", ns, *words],
            env={"KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    async def scale() -> Raw:
        path = f"/apis/kubeflow.org/v1/namespaces/{ns}/{kind.plural}/j/scale"
        answer: Raw = json.loads(await kubectl("get", "--raw", path))
        return answer

    field = f"{container}ReplicaSpecs"
    body: Raw = {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind.kind,
        "metadata": {"name": "j", "namespace": ns},
        "spec": {field: {"Worker": replica(1, name=container)}},
    }
    async with operating(client, namespace=ns):
        await client.create(kind, body)
        await pods(client, ns, 1)
        output = await kubectl("scale", f"{kind.kind.lower()}/j", "--replicas=3")
        assert output == f"{kind.kind.lower()}.kubeflow.org/j scaled\n"
        names = await pods(client, ns, 3)
        for name in names:
            await move(client, ns, name, "Running")
        await condition(client, kind, Key(ns, "j"), "Running")

        async def counted() -> bool:
            return bool((await scale())["status"].get("replicas") == 3)

        await eventually(counted, what="three workers in the scale")
        current = await scale()
        assert current["spec"] == {"replicas": 3}
        listed = await kubectl("get", "pods", "-o", "name", "-l", current["status"]["selector"])
        assert sorted(listed.split()) == [f"pod/{name}" for name in names]

        await kubectl("scale", f"{kind.kind.lower()}/j", "--replicas=2", "--current-replicas=3")
        await pods(client, ns, 2)
