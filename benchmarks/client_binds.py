"""Binds per second with 32 in flight: our client against a bare aiohttp loop, same API server."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
import uvloop
from tests.controlplane.build import build
from tests.controlplane.control_plane import ControlPlane

from benchmarks.ratio import Ratio
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from kubekit.objects.kinds import NODES, PODS
from kubekit.objects.meta import Key, Raw

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PODS_PER_ROUND, IN_FLIGHT, ROUNDS = 300, 32, 21


def run() -> list[Ratio]:
    with ControlPlane(build()) as plane:
        rounds = uvloop.run(_compare(plane))
    return [Ratio("binds with 32 in flight vs a bare aiohttp loop", rounds, "binds/s", ">= 0.95")]


async def _compare(plane: ControlPlane) -> list[tuple[float, float]]:
    """Rounds of both clients in turn, with the same token, so that the server does equal work."""
    endpoint = Endpoint.with_token(plane.url, plane.token, ca=plane.ca_file.read_bytes())
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    headers = {"Authorization": f"Bearer {plane.token}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=context, limit=IN_FLIGHT)
    async with (
        Client.connect(endpoint) as client,
        aiohttp.ClientSession(plane.url, connector=connector, headers=headers) as session,
    ):
        await client.create(NODES, {"metadata": {"name": "n"}})
        rounds = []
        for number in range(ROUNDS):
            sides = [partial(_ours, client), partial(_bare, session)]
            order = (0, 1) if number % 2 else (1, 0)
            rates = {side: await _rate(await _pods(client), sides[side]) for side in order}
            rounds.append((rates[0], rates[1]))
        return rounds


async def _ours(client: Client, name: str, uid: str) -> None:
    await client.bind(Key("default", name), uid=uid, node="n")


async def _bare(session: aiohttp.ClientSession, name: str, uid: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }
    path = f"/api/v1/namespaces/default/pods/{name}/binding"
    async with session.post(path, data=json.dumps(body)) as answer:
        await answer.read()
        answer.raise_for_status()


async def _pods(client: Client) -> list[tuple[str, str]]:
    """Fresh unbound pods, as (name, uid)."""
    body: Raw = {
        "metadata": {"generateName": "bench-"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "muster"},
    }
    pods: list[tuple[str, str]] = []

    async def create(_: str, __: str) -> None:
        pod = await client.create(PODS, body, namespace="default")
        pods.append((pod.metadata.name, pod.metadata.uid))

    await _drain([("", "")] * PODS_PER_ROUND, create)
    return pods


async def _rate(pods: list[tuple[str, str]], bind: Callable[[str, str], Awaitable[None]]) -> float:
    start = time.perf_counter()
    await _drain(pods, bind)
    return len(pods) / (time.perf_counter() - start)


async def _drain(items: list[tuple[str, str]], work: Callable[[str, str], Awaitable[None]]) -> None:
    """Call `work` for every item, 32 at a time."""
    waiting = iter(items)

    async def worker() -> None:
        for name, uid in waiting:
            await work(name, uid)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())
