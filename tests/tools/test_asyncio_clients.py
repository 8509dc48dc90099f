"""kubernetes_asyncio and kr8s, the Python clients with asyncio, with real pods."""

from __future__ import annotations

import asyncio
import gc
import importlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.objects import POD
from tests.waiting import eventually

# The clients leave sockets to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported"),  # too new for kr8s
]
client: Any = importlib.import_module("kubernetes_asyncio.client")
config: Any = importlib.import_module("kubernetes_asyncio.config")
watch: Any = importlib.import_module("kubernetes_asyncio.watch")
stream: Any = importlib.import_module("kubernetes_asyncio.stream")
election: Any = importlib.import_module("kubernetes_asyncio.leaderelection.leaderelection")
election_config: Any = importlib.import_module("kubernetes_asyncio.leaderelection.electionconfig")
locks: Any = importlib.import_module("kubernetes_asyncio.leaderelection.resourcelock.leaselock")
kr8s: Any = importlib.import_module("kr8s.asyncio")
objects: Any = importlib.import_module("kr8s.asyncio.objects")
httpx: Any = importlib.import_module("httpx")


def named(name: str) -> dict[str, Any]:
    return {**POD, "metadata": {"name": name, "namespace": "default", "labels": {"app": name}}}


@pytest.fixture
async def connection(kubeconfig: Path) -> AsyncIterator[Any]:
    """kubernetes_asyncio."""
    settings = client.Configuration()
    await config.load_kube_config(str(kubeconfig), client_configuration=settings)
    async with client.ApiClient(settings) as connection:
        yield connection
    gc.collect()


async def test_kubernetes_asyncio_writes_and_watches(connection: Any) -> None:
    core = client.CoreV1Api(connection)
    listed = await core.list_namespaced_config_map("default")
    seen: list[tuple[str, str]] = []

    async def follow() -> None:
        version = listed.metadata.resource_version
        async with watch.Watch() as events:
            async for event in events.stream(
                core.list_namespaced_config_map, "default", resource_version=version
            ):
                seen.append((event["type"], event["object"].metadata.name))
                if event["type"] == "DELETED":
                    return

    following = asyncio.create_task(follow())
    await core.create_namespaced_config_map("default", {"metadata": {"name": "watched"}})
    await core.patch_namespaced_config_map("watched", "default", {"data": {"k": "v"}})
    read = await core.read_namespaced_config_map("watched", "default")
    await core.delete_namespaced_config_map("watched", "default")
    await asyncio.wait_for(following, 20)

    assert read.data == {"k": "v"}
    assert seen == [(kind, "watched") for kind in ("ADDED", "MODIFIED", "DELETED")]
    with pytest.raises(client.ApiException) as missing:
        await core.read_namespaced_config_map("watched", "default")
    assert missing.value.status == 404


async def test_kubernetes_asyncio_runs_commands_in_pods(connection: Any) -> None:
    core = client.CoreV1Api(connection)
    await core.create_namespaced_pod("default", named("asyncio-page"))

    async def running() -> bool:
        pod = await core.read_namespaced_pod("asyncio-page", "default")
        return str(pod.status.phase) == "Running"

    await eventually(running, timeout=60, what="the pod")
    async with stream.WsApiClient(connection.configuration) as sockets:
        output = await client.CoreV1Api(sockets).connect_get_namespaced_pod_exec(
            "asyncio-page", "default", command=["echo", "inside"], stdout=True, stderr=True
        )
    log = await core.read_namespaced_pod_log("asyncio-page", "default")
    await core.delete_namespaced_pod("asyncio-page", "default")

    assert output == "inside\n"
    assert log.splitlines()[0] == "started"


async def test_kubernetes_asyncio_elects_a_leader(connection: Any) -> None:
    led = asyncio.Event()

    async def lead() -> None:
        led.set()

    async def stop() -> None:
        pass

    lock = locks.LeaseLock("asyncio-leader", "default", "me", connection)
    candidate = election.LeaderElection(election_config.Config(lock, 3, 2, 1, lead, stop))
    campaign = asyncio.create_task(candidate.run())
    await asyncio.wait_for(led.wait(), 20)
    leases = client.CoordinationV1Api(connection)
    first = await leases.read_namespaced_lease("asyncio-leader", "default")

    async def renewed() -> bool:
        lease = await leases.read_namespaced_lease("asyncio-leader", "default")
        return bool(lease.spec.renew_time > first.spec.renew_time)

    await eventually(renewed, what="the renewed lease")
    campaign.cancel()
    assert first.spec.holder_identity == "me"


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Any]:
    """kr8s."""
    api = await kr8s.api(kubeconfig=str(kubeconfig))
    yield api
    await api._session.aclose()  # kr8s itself never closes it
    gc.collect()


async def test_kr8s_creates_waits_reads_logs_runs_commands_and_forwards_ports(
    api: Any,
) -> None:
    pod = await objects.Pod(named("kr8s-page"), api=api)
    await pod.create()
    await pod.wait("condition=Ready", timeout=60)
    lines = [line async for line in pod.logs()]
    result = await pod.exec(["sh", "-c", "echo out; echo err >&2"])
    failed = await pod.exec(["sh", "-c", "exit 3"], check=False)
    async with (
        pod.portforward(remote_port=8000, local_port="auto") as port,
        httpx.AsyncClient() as web,
    ):
        page = await web.get(f"http://127.0.0.1:{port}/")
    await pod.annotate({"seen": "yes"})
    listed = [item.name async for item in kr8s.get("pods", label_selector="app=kr8s-page", api=api)]
    await pod.delete()
    await pod.wait("delete", timeout=60)

    assert lines[0] == "started"
    assert (result.stdout, result.stderr, result.returncode) == (b"out\n", b"err\n", 0)
    assert failed.returncode == 3
    assert page.status_code == 200
    assert listed == ["kr8s-page"]
    assert pod.annotations["seen"] == "yes"


async def test_kr8s_scales_a_deployment_and_lists_every_kind(api: Any) -> None:
    labels = {"app": "kr8s-scaled"}
    deployment = await objects.Deployment(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kr8s-scaled", "namespace": "default"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": POD["spec"]},
            },
        },
        api=api,
    )
    await deployment.create()
    await deployment.scale(2)
    ready = await eventually(deployment.ready, timeout=60, what="the deployment")
    pods = await deployment.pods()
    kinds = {resource["kind"] for resource in await api.api_resources()}
    version = await api.version()
    await deployment.delete(propagation_policy="Foreground")
    await deployment.wait("delete", timeout=60)

    assert ready
    assert deployment.replicas == len(pods) == 2
    assert {"Pod", "Deployment", "TFJob", "Lease"} <= kinds
    assert "localkube" in version["gitVersion"]
