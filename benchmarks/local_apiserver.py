"""The local API server: start, big lists, many objects, and the lag of its event loop.

    python -m benchmarks local_apiserver

The server runs in a process of its own (`python -m benchmarks.local_apiserver FOLDER`), measures
its own event loop, and reports at the end. Peers: the real kube-apiserver, msgspec, SQLite, or one
second.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sqlite3
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import uvloop
from tests.controlplane.build import build
from tests.controlplane.control_plane import ControlPlane

from benchmarks.ratio import Ratio, in_turn, seconds
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from localkube.apiserver.http.requests import Call, Route
from localkube.apiserver.server import ApiServer
from localkube.apiserver.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTED, CHANGING, STORED = 10_000, 1_000, 100_000
WATCHERS, WRITERS, SECONDS = 5, 8, 10.0
TICK = 0.005


def run() -> list[Ratio]:
    return [*_starts(), *_lists(), *_lags(), *_sizes()]


# -- the server's own process --------------------------------------------------------------------


async def _serve(folder: Path) -> None:
    """Run until standard input closes; print the address, then the lag of the loop."""
    server = ApiServer(folder)
    await server.start()
    print(json.dumps([server.url, server.token, server.ca.decode()]), flush=True)
    late: list[float] = []
    loop = asyncio.get_running_loop()
    done = loop.run_in_executor(None, sys.stdin.read)
    while not done.done():
        due = loop.time() + TICK
        await asyncio.sleep(TICK)
        late.append(1e3 * (loop.time() - due))
    await server.stop()
    print(json.dumps(late), flush=True)


class ServerProcess:
    """The local API server in another process."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.local_apiserver", str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.url, self.token, ca = json.loads(self._line())
        self.ca = ca.encode()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def stop(self) -> list[float]:
        """Stop it; returns the lag of its loop at every tick, in milliseconds."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        late: list[float] = json.loads(self._line())
        self._process.wait()
        return late

    def client(self) -> Client:
        return Client.connect(Endpoint.with_token(self.url, self.token, ca=self.ca))


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        yield Path(name)


# -- starting ------------------------------------------------------------------------------------


def _starts() -> list[Ratio]:
    binaries = build()

    def ours() -> float:
        with _folder() as folder:
            start = time.perf_counter()
            server = ServerProcess(folder)
            took = time.perf_counter() - start
            server.stop()
            return took

    def real() -> float:
        plane = ControlPlane(binaries)
        try:
            return seconds(plane.start)
        finally:
            plane.stop()

    rounds = in_turn(ours, real, rounds=5)
    alone = [(ours, 1.0) for ours, _ in rounds]
    return [
        Ratio("process start to ready vs etcd and kube-apiserver", rounds, "s", "<= 0.5"),
        Ratio("process start to ready vs one second", alone, "s", "<= 1.0"),
    ]


# -- listing -------------------------------------------------------------------------------------


def _pod(number: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"pod-{number:05d}", "labels": {"job": f"j{number % 50}"}},
        "spec": {
            "containers": [{"name": "tensorflow", "image": "tensorflow/tensorflow:2.21.0"}],
            "nodeName": f"muster-{number % 10}",
        },
    }


async def _fill(folder: Path, kind: str, count: int, body: Any) -> None:
    """Create objects through the verbs of a server without clients."""
    server = ApiServer(folder)
    await server.start()
    resource = server.registry.find("", "v1", kind)
    assert resource is not None
    numbers = iter(range(count))

    async def writer() -> None:
        for number in numbers:
            route = Route("create", "", "v1", kind, "default")
            data = msgspec.json.encode(body(number))
            await server.verbs.create(Call(route, resource, body=data))

    async with asyncio.TaskGroup() as group:
        for _ in range(256):
            group.create_task(writer())
    await server.stop()


def _lists() -> list[Ratio]:
    with _folder() as folder:
        uvloop.run(_fill(folder, "pods", LISTED, _pod))
        server = ServerProcess(folder)
        whole = msgspec.json.decode(_get(server))
        assert len(whole["items"]) == LISTED
        rounds = in_turn(lambda: seconds(lambda: _get(server)), lambda: _encode(whole))
        server.stop()
    alone = [(ours, 1.0) for ours, _ in rounds]
    return [
        Ratio(f"list of {LISTED} pods over TLS vs msgspec encoding it", rounds, "s", "<= 20"),
        Ratio(f"list of {LISTED} pods over TLS vs one second", alone, "s", "<= 1.0"),
    ]


def _encode(whole: Any) -> float:
    return seconds(lambda: msgspec.json.encode(whole))


def _get(server: ServerProcess) -> bytes:
    place = urlsplit(server.url)
    trust = ssl.create_default_context(cadata=server.ca.decode())
    connection = http.client.HTTPSConnection(str(place.hostname), place.port, context=trust)
    headers = {"Authorization": f"Bearer {server.token}"}
    connection.request("GET", "/api/v1/namespaces/default/pods", headers=headers)
    data = connection.getresponse().read()
    connection.close()
    return data


# -- lag -----------------------------------------------------------------------------------------


def _lags() -> list[Ratio]:
    with _folder() as folder:
        uvloop.run(_fill(folder, "pods", CHANGING, _pod))
        server = ServerProcess(folder)
        writes = uvloop.run(_disturb(server))
        late = server.stop()
    cuts = statistics.quantiles(late, n=100)
    print(
        f"{writes / SECONDS:.0f} status writes/s, {WATCHERS} watchers, a full list twice a second:"
        f" the loop is late by {cuts[49]:.1f} ms (median), {cuts[98]:.1f} ms (p99),"
        f" {max(late):.1f} ms (worst)"
    )
    name = f"event loop lag p99 with {CHANGING} pods changing vs one millisecond"
    return [Ratio(name, [(cuts[98], 1.0)], "ms", "<= 50")]


async def _disturb(server: ServerProcess) -> int:
    """Change all pods repeatedly while clients watch and list; returns the number of writes."""
    writes, end = 0, time.monotonic() + SECONDS

    async def write(client: Client, first: int) -> None:
        nonlocal writes
        number = first
        while time.monotonic() < end:
            key = Key("default", f"pod-{number % CHANGING:05d}")
            status = {"status": {"phase": "Running", "message": str(writes)}}
            await client.patch(PODS, key, status, subresource="status")
            number, writes = number + WRITERS, writes + 1

    async def follow(client: Client, since: str) -> None:
        async for _ in client.watch(PODS, "default", since=since):
            if time.monotonic() > end:
                return

    async def look(client: Client) -> None:
        while time.monotonic() < end:
            await client.list(PODS, "default")
            await asyncio.sleep(0.5)

    async with server.client() as client, server.client() as readers:
        since = (await client.list(PODS, "default")).resource_version
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(write(client, number))
            for _ in range(WATCHERS):
                group.create_task(follow(readers, since))
            group.create_task(look(client))
    return writes


# -- size ----------------------------------------------------------------------------------------


def _config(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"c-{number:06d}"}, "data": {"number": str(number)}}


def _sizes() -> list[Ratio]:
    with _folder() as folder:
        took = seconds(lambda: uvloop.run(_fill(folder, "configmaps", STORED, _config)))
        print(f"{STORED} objects written in {took:.0f} s, {STORED / took:.0f} a second")
        path = folder / "objects.db"
        rounds = in_turn(lambda: uvloop.run(_open(path)), lambda: _rows(path), rounds=5)
    return [Ratio(f"opening a store of {STORED} objects vs reading its rows", rounds, "s", "<= 8")]


async def _open(path: Path) -> float:
    start = time.perf_counter()
    store = await Store.open(path)
    took = time.perf_counter() - start
    assert sum(1 for _ in store.scan("configmaps/")) >= STORED
    await store.close()
    return took


def _rows(path: Path) -> float:
    """Read the same rows into a dict with SQLite alone."""
    start = time.perf_counter()
    with sqlite3.connect(path) as db:
        rows = dict(db.execute("SELECT key, value FROM log").fetchall())
    db.close()
    assert len(rows) >= STORED
    return time.perf_counter() - start


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1])))
