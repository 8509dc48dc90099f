"""An informer follows its kind to the version that the server serves."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.client import Client
from kubekit.client.error_response import error_from_response
from kubekit.client.request import Request, Response
from kubekit.objects.core import Pod
from kubekit.objects.kinds import Kind
from kubekit.watch.informer import AnyVersionInformer
from kubekit.watch.informer_cache import Change
from tests.api_in_memory import ApiInMemory, status_response
from tests.kubekit.builders import pod
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.looptime
KIND = Kind("example.com", "v1alpha2", "pods", "Pod", Pod)
ROOT = "/apis/example.com"


class VersionedServer(ApiInMemory):
    """Serves the pods of the fake in some versions of a group; `v1` of it has other resources."""

    def __init__(self, *served: str) -> None:
        super().__init__()
        self.served = served

    async def send(self, request: Request) -> Response:
        path = request.path
        if path == ROOT and self.served:
            rows = [{"groupVersion": f"example.com/{version}"} for version in ("v1", *self.served)]
            return Response(200, {}, json.dumps({"versions": rows}).encode())
        version, _, rest = path.removeprefix(f"{ROOT}/").partition("/")
        if not rest and version in ("v1", *self.served):
            name = "others" if version == "v1" else "pods"
            row = {"name": name, "kind": "Pod", "namespaced": True, "verbs": ["list", "watch"]}
            return Response(200, {}, json.dumps({"resources": [row]}).encode())
        if version not in self.served:
            return status_response(404, "NotFound", "404 page not found")
        return await super().send(request._replace(path=f"/api/v1/{rest}"))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        version, _, rest = request.path.removeprefix(f"{ROOT}/").partition("/")
        if version not in self.served:
            raise error_from_response(status_response(404, "NotFound", "not found"), request)
        async with super().stream(request._replace(path=f"/api/v1/{rest}")) as events:
            yield events


@asynccontextmanager
async def watching(
    server: VersionedServer,
) -> AsyncIterator[tuple[AnyVersionInformer[Pod], list[Change[Any]]]]:
    informer: AnyVersionInformer[Pod] = AnyVersionInformer(Client(server), KIND)
    changes: list[Change[Any]] = []
    informer.subscribe(changes.append)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        yield informer, changes
        task.cancel()


@pytest.mark.parametrize("served", [("v1alpha2",), ("v1beta1", "v1alpha3"), ("v7",)])
async def test_the_first_served_version_is_listed_before_the_informer_has_synced(
    served: tuple[str, ...],
) -> None:
    server = VersionedServer(*served)
    server.add(pod("a"))
    async with watching(server) as (informer, _):
        await informer.synced()
        assert [p.metadata.name for p in informer.all()] == ["a"]
        assert informer.kind.version == served[0]
        server.add(pod("b"))
        await eventually(lambda: len(informer.all()) == 2, timeout=60, what="the watch")


async def test_a_resource_in_no_version_counts_as_empty_until_it_appears() -> None:
    server = VersionedServer()
    server.add(pod("a"))
    async with watching(server) as (informer, _):
        await informer.synced()
        assert not informer.installed
        server.served = ("v1beta1",)
        await eventually(lambda: len(informer.all()) == 1, timeout=60, what="the first list")
        assert informer.installed


async def test_an_upgrade_of_the_server_changes_the_version_and_loses_no_object() -> None:
    server = VersionedServer("v1alpha2")
    server.add(pod("a"))
    async with watching(server) as (informer, changes):
        await informer.synced()
        server.served = ("v1beta1",)
        server.cut()
        server.add(pod("b"))
        await eventually(lambda: len(informer.all()) == 2, timeout=60, what="the new version")

    assert informer.kind.version == "v1beta1"
    assert [change.current.metadata.name for change in changes] == ["a", "b"]
