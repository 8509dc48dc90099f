"""Reading one pod of 3 KB again and again: our clients against the official ones.

All clients use plain HTTP to the same small server. The figure is the processor time of the client
per call, with one call in flight for blocking clients and 32 for asynchronous ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import uvloop
from aiohttp import web

from benchmarks.ratio import Ratio, in_turn
from benchmarks.watch_decode import pod
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.client import Client
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

CALLS, IN_FLIGHT, ROUNDS = 2000, 32, 5
X = Key("default", "x")


def run() -> list[Ratio]:
    """The rows of `python -m benchmarks client_calls`."""
    with _server() as url:
        return [
            Ratio(
                "asyncio client against kubernetes.aio, processor time for each call",
                in_turn(
                    lambda: uvloop.run(_ours(url)), lambda: uvloop.run(_aio(url)), rounds=ROUNDS
                ),
                "µs",
                "<= 0.5",
            ),
            Ratio(
                "blocking client against kubernetes, processor time for each call",
                in_turn(lambda: _ours_blocking(url), lambda: _official(url), rounds=ROUNDS),
                "µs",
                "<= 0.5",
            ),
        ]


async def _ours(url: str) -> float:
    async with Client.connect(Endpoint(url)) as client:
        return await _in_flight(lambda: client.get(PODS, X))


async def _aio(url: str) -> float:
    from kubernetes.aio import client as official

    configuration = official.Configuration()
    configuration.host = url
    async with official.ApiClient(configuration) as api:
        core: Any = official.CoreV1Api(api)
        return await _in_flight(lambda: core.read_namespaced_pod("x", "default"))


async def _in_flight(call: Callable[[], Awaitable[object]]) -> float:
    calls = iter(range(CALLS))

    async def worker() -> None:
        for _ in calls:
            await call()

    start = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())
    return _microseconds(start)


def _ours_blocking(url: str) -> float:
    with BlockingClient(Endpoint(url)) as client:
        start = time.process_time()
        for _ in range(CALLS):
            client.get(PODS, X)
        return _microseconds(start)


def _official(url: str) -> float:
    from kubernetes import client as official

    configuration = official.Configuration()
    configuration.host = url
    with official.ApiClient(configuration) as api:
        core: Any = official.CoreV1Api(api)
        start = time.process_time()
        for _ in range(CALLS):
            core.read_namespaced_pod("x", "default")
        return _microseconds(start)


def _microseconds(start: float) -> float:
    return (time.process_time() - start) / CALLS * 1e6


@contextlib.contextmanager
def _server() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.client_calls", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


async def _serve() -> None:
    body = json.dumps(pod(1)).encode()

    async def handle(_: web.BaseRequest) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve())
