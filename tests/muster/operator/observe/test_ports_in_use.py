"""Ports on the host's network: chosen when they are needed, and free of all other pods."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.client import Client
from kubekit.objects.kinds import SERVICES
from kubekit.objects.meta import Raw
from muster.operator.daemon import Options, build
from muster.operator.decision_types import Action, Patch, Settings
from tests.api_in_memory import ApiInMemory, merged
from tests.muster.operator.builders import Model, manifest, replica

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

START = datetime(2026, 1, 2, tzinfo=UTC)
NS = "namespaces/ns"


class Cluster(Model):
    """A cluster whose services can be changed."""

    def _do(self, action: Action) -> None:
        if isinstance(action, Patch) and action.kind == SERVICES:
            self.services[action.name] = merged(self.services[action.name], action.change)
        else:
            super()._do(action)


def workers(count: int = 2, port: int = 0, **spec: Any) -> Raw:
    body = replica(count, **spec)
    if port:
        row = {"name": "tfjob-port", "containerPort": port}
        body["template"]["spec"]["containers"][0]["ports"] = [row]
    return {"Worker": body}


def host_ports(pods: list[Raw]) -> list[int]:
    """The host port of each pod, which equals its container port."""
    ports = [pod["spec"]["containers"][0]["ports"][-1] for pod in pods]
    assert all(row["hostPort"] == row["containerPort"] for row in ports)
    return [row["hostPort"] for row in ports]


@pytest.mark.parametrize("port", [0, 22222])
def test_an_ordinary_service_port_is_not_a_recorded_host_port(port: int) -> None:
    model = Cluster(manifest(roles=workers(port=port)))
    model.settle()

    model.edit(tfReplicaSpecs=workers(port=port, hostNetwork=True))
    model.pods.clear()
    model.settle()

    ports = host_ports([model.manifests[f"j-worker-{i}"] for i in (0, 1)])
    assert len(set(ports)) == 2
    assert port not in ports
    assert 2222 not in ports
    for i in (0, 1):
        assert model.services[f"j-worker-{i}"]["spec"]["ports"][0]["port"] == ports[i]


def test_pods_wait_until_their_services_show_the_port() -> None:
    model = Cluster(manifest(roles=workers()))
    model.settle()
    model.edit(tfReplicaSpecs=workers(hostNetwork=True))
    model.pods.clear()

    actions = model.step()
    assert [action.name for action in actions if isinstance(action, Patch)] == [
        "j-worker-0",
        "j-worker-1",
    ]
    assert not model.pods
    model.step()
    assert len(model.pods) == 2


def test_a_port_that_a_container_of_the_job_listens_on_is_not_chosen() -> None:
    settings = Settings(host_ports=range(20000, 20003))
    roles = workers(hostNetwork=True)
    row = {"name": "metrics", "containerPort": 20001}
    roles["Worker"]["template"]["spec"]["containers"][0]["ports"] = [row]
    model = Cluster(manifest(roles=roles), settings)
    model.settle()

    ports = host_ports([model.manifests[f"j-worker-{i}"] for i in (0, 1)])
    assert sorted(ports) == [20000, 20002]


def test_a_service_that_keeps_its_port_is_not_written_again() -> None:
    model = Cluster(manifest(roles=workers(hostNetwork=True)))
    model.settle()
    before = dict(model.services)
    model.edit(tfReplicaSpecs=workers(3, hostNetwork=True))
    model.settle()

    assert {name: model.services[name] for name in before} == before
    assert len(set(host_ports(list(model.manifests.values())))) == 3


# With the control loop


@asynccontextmanager
async def operating(server: ApiInMemory, **options: Any) -> AsyncIterator[None]:
    def clock() -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    manager = build(Client(server), Options(**options), clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        try:
            yield
        finally:
            manager.stop()


def submit(server: ApiInMemory, name: str = "j", **spec: Any) -> None:
    raw = manifest(name=name, roles=workers(2, hostNetwork=True), **spec)
    del raw["metadata"]["uid"]
    server.put(f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}", raw)


def stranger(server: ApiInMemory, name: str, phase: str = "Running", **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}
    server.put(f"/api/v1/namespaces/other/pods/{name}", body)


def chosen(server: ApiInMemory, name: str = "j") -> list[int]:
    paths = [f"/api/v1/{NS}/pods/{name}-worker-{i}" for i in (0, 1)]
    return host_ports([pod for path in paths if (pod := server.get(path)) is not None])


def lists_of_all_pods(server: ApiInMemory) -> int:
    """How often pods were listed, besides the operator's own watch of them."""
    return sum(ask[:2] == ("GET", "/api/v1/pods") for ask in server.requests) - 1


THREE = Settings(host_ports=range(20000, 20003))


@pytest.mark.looptime
async def test_the_service_port_of_a_job_on_the_pod_network_takes_no_host_port() -> None:
    server = ApiInMemory()
    raw = manifest(name="plain", roles=workers(port=20001))
    del raw["metadata"]["uid"]
    async with operating(server, settings=Settings(host_ports=range(20000, 20002))):
        server.put(f"/apis/kubeflow.org/v1/{NS}/tfjobs/plain", raw)
        await asyncio.sleep(5)
        submit(server)
        await asyncio.sleep(5)

    assert sorted(chosen(server)) == [20000, 20001]


@pytest.mark.looptime
@pytest.mark.parametrize(
    "holder",
    [
        {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 20001}]}]},
        {
            "hostNetwork": True,
            "containers": [{"name": "c", "ports": [{"containerPort": 20001}]}],
        },
        {
            "containers": [{"name": "c"}],
            "initContainers": [{"name": "s", "ports": [{"containerPort": 1, "hostPort": 20001}]}],
        },
    ],
    ids=["hostPort", "hostNetwork", "sidecar"],
)
async def test_ports_of_other_pods_are_skipped(holder: Raw) -> None:
    server = ApiInMemory()
    stranger(server, "foreign", **holder)
    async with operating(server, settings=THREE):
        submit(server)
        await asyncio.sleep(5)

        assert sorted(chosen(server)) == [20000, 20002]
        assert lists_of_all_pods(server) == 1


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("phase", "holder"),
    [
        ("Succeeded", {"hostNetwork": True}),
        ("Failed", {"hostNetwork": True}),
        ("Running", {}),
    ],
)
async def test_a_port_that_no_pod_holds_any_more_is_free(phase: str, holder: Raw) -> None:
    server = ApiInMemory()
    two = Settings(host_ports=range(20000, 20002))
    ports = [{"containerPort": 20000}, {"containerPort": 20001}]
    stranger(server, "foreign", phase, containers=[{"name": "c", "ports": ports}], **holder)
    async with operating(server, settings=two):
        submit(server)
        await asyncio.sleep(5)

        assert sorted(chosen(server)) == [20000, 20001]


@pytest.mark.looptime
async def test_an_operator_that_may_not_list_pods_chooses_ports_and_logs_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ApiInMemory()
    async with operating(server, settings=THREE):
        await asyncio.sleep(1)
        server.forbidden.add("GET pods")
        with caplog.at_level(logging.WARNING):
            submit(server)
            await asyncio.sleep(5)

        assert len(set(chosen(server))) == 2
    assert any(
        "muster-operator may not list pods; add" in row.getMessage() for row in caplog.records
    )


@pytest.mark.looptime
async def test_a_service_that_was_lost_comes_back_with_the_port_of_its_pod() -> None:
    server = ApiInMemory()
    async with operating(server, settings=Settings(host_ports=range(20000, 20100))):
        submit(server)
        await asyncio.sleep(5)
        ports = chosen(server)
        server.remove(f"/api/v1/{NS}/services/j-worker-1")
        await asyncio.sleep(5)

        service = server.get(f"/api/v1/{NS}/services/j-worker-1")
        assert service is not None
        assert service["spec"]["ports"][0]["port"] == ports[1]
        assert chosen(server) == ports


@pytest.mark.looptime
async def test_jobs_created_at_the_same_time_get_different_ports() -> None:
    server = ApiInMemory(late=2.0)
    names = [f"j{i}" for i in range(12)]
    async with operating(server, settings=Settings(host_ports=range(20000, 20024))):
        await asyncio.sleep(1)
        for name in names:
            submit(server, name)
        await asyncio.sleep(30)

        ports = [port for name in names for port in chosen(server, name)]
        assert sorted(ports) == list(range(20000, 20024))


@pytest.mark.looptime
async def test_a_job_without_host_ports_lists_no_pods() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server, "waits", runPolicy={"suspend": True})
        raw = manifest(name="plain")
        del raw["metadata"]["uid"]
        server.put(f"/apis/kubeflow.org/v1/{NS}/tfjobs/plain", raw)
        await asyncio.sleep(5)

        assert len(server.named("pods")) == 3
        assert lists_of_all_pods(server) == 0
