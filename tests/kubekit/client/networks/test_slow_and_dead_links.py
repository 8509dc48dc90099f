"""Links that are slow, links that are dead, and load balancers that cut watches."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest

from kubekit.client import request
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.client import Client
from kubekit.client.transport import blocking_transport, connection_pool, http_transport
from kubekit.client.transport.http_transport import HttpTransport
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key
from kubekit.request_errors import Unreachable
from kubekit.watch.informer import Informer
from tests.builders import config_map
from tests.kubekit.client.networks.intermediaries import Gateway, Relay, host_and_port
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

SILENCE = 1.0
LARGE = "x" * 250_000


@pytest.fixture
def relay(gateway: Gateway) -> Iterator[Relay]:
    with Relay(host_and_port(gateway.url)) as running:
        yield running


@pytest.fixture
def server(endpoint: Endpoint, relay: Relay) -> Endpoint:
    return msgspec.structs.replace(endpoint, url=f"https://127.0.0.1:{relay.port}")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "TIMEOUT", SILENCE)
    monkeypatch.setattr(blocking_transport, "TIMEOUT", SILENCE)
    for module in (connection_pool, blocking_transport):
        monkeypatch.setattr(module, "CONNECT_TIMEOUT", SILENCE)


@pytest.mark.usefixtures("impatient")
async def test_a_body_that_trickles_in_is_read_to_its_end(
    relay: Relay, server: Endpoint, api: Endpoint
) -> None:
    """It takes several times as long as the server may be silent."""
    with BlockingClient(api) as direct:
        direct.create(CONFIG_MAPS, config_map("large", "default", a=LARGE))
    key = Key("default", "large")
    async with Client.connect(server) as client:
        await client.get(CONFIG_MAPS, key)  # the handshake, at full speed
        relay.piece, relay.delay = 8192, SILENCE / 8  # half a TLS record
        began = time.monotonic()
        assert (await client.get(CONFIG_MAPS, key)).data == {"a": LARGE}
        assert time.monotonic() - began > 2 * SILENCE
        relay.delay = 0
    with BlockingClient(server) as blocking:
        await asyncio.to_thread(blocking.get, CONFIG_MAPS, key)
        relay.delay = SILENCE / 8
        began = time.monotonic()
        assert (await asyncio.to_thread(blocking.get, CONFIG_MAPS, key)).data == {"a": LARGE}
        assert time.monotonic() - began > 2 * SILENCE


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_falls_silent_is_unreachable(relay: Relay, server: Endpoint) -> None:
    async with Client.connect(server) as client:
        with BlockingClient(server) as blocking:
            listed = await client.list(CONFIG_MAPS)
            await asyncio.to_thread(blocking.list, CONFIG_MAPS)
            relay.go_dead()
            for attempt in (
                client.list(CONFIG_MAPS),
                anext(client.watch(CONFIG_MAPS, since=listed.resource_version)),
                asyncio.to_thread(blocking.list, CONFIG_MAPS),
                asyncio.to_thread(lambda: list(blocking.logs(Key("default", "x")))),
            ):
                with pytest.raises(Unreachable, match=f"no answer from {server.url} in time"):
                    await attempt
            relay.revive()
            await client.list(CONFIG_MAPS)
            await asyncio.to_thread(blocking.list, CONFIG_MAPS)


async def test_a_cut_watch_goes_on_without_a_new_list_and_loses_nothing(
    relay: Relay, server: Endpoint, api: Endpoint, gateway: Gateway
) -> None:
    seen: list[str] = []
    async with (
        Client.connect(api) as direct,
        Client.connect(server) as client,
        asyncio.TaskGroup() as group,
    ):
        informer = Informer(client, CONFIG_MAPS, "default")
        informer.subscribe(lambda change: seen.append(change.current.metadata.name))
        running = group.create_task(informer.run())
        await informer.synced()
        before = gateway.lists
        del seen[:]
        for number in range(6):
            await direct.create(CONFIG_MAPS, config_map(f"cut-{number}a", "default"))
            await asyncio.to_thread(relay.cut)
            await direct.create(CONFIG_MAPS, config_map(f"cut-{number}b", "default"))
            await eventually(partial(seen.count, f"cut-{number}b"))
        running.cancel()
    assert seen == [f"cut-{number}{half}" for number in range(6) for half in "ab"]
    assert gateway.lists == before
    assert relay.connections > 6


async def test_a_watch_that_nobody_ends_is_given_up_and_resumed(
    relay: Relay,
    server: Endpoint,
    api: Endpoint,
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A load balancer that holds our connection, with nobody behind it."""
    monkeypatch.setattr(request, "WATCH_GRACE", SILENCE)
    async with (
        Client.connect(api) as direct,
        Client(HttpTransport(server), watch_seconds=(1, 1)) as client,
        asyncio.TaskGroup() as group,
    ):
        informer = Informer(client, CONFIG_MAPS, "default")
        running = group.create_task(informer.run())
        await informer.synced()
        await eventually(lambda: any("watch=" in path for path, _ in gateway.asked))
        before = gateway.lists
        relay.go_dead()
        await direct.create(CONFIG_MAPS, config_map("unheard", "default"))
        await eventually(lambda: informer.stale_reason)
        await asyncio.to_thread(relay.revive)
        await eventually(lambda: informer.get(Key("default", "unheard")))
        await eventually(lambda: not informer.stale_reason)
        assert gateway.lists == before
        running.cancel()


async def test_a_large_request_may_take_its_time() -> None:
    """The time to send it does not count as silence of the server."""
    received = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        with closing(writer):
            while received < size:
                await asyncio.sleep(0.02)  # pace: the server reads slowly
                received += len(await reader.read(1 << 20))
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

    size = 50 << 20
    listening = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 19)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    transport = HttpTransport(Endpoint(url))
    call = request.Request("POST", "/x", (), bytes(size), timeout=0.3)
    began = time.monotonic()
    assert (await transport.send(call)).status == 200
    assert time.monotonic() - began > 2 * 0.3
    received = 0
    with BlockingClient(Endpoint(url)) as blocking:
        assert (await asyncio.to_thread(blocking.send, call)).status == 200
    await transport.close()
    listening.close()
