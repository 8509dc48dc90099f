"""Links that are slow, links that are dead, and load balancers that cut watches."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

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
    from collections.abc import Awaitable, Iterator

T = TypeVar("T")
SILENCE = 2.0
LARGE = "x" * 500_000


@pytest.fixture
def relay(gateway: Gateway) -> Iterator[Relay]:
    with Relay(host_and_port(gateway.url)) as running:
        yield running


@pytest.fixture
def server(endpoint: Endpoint, relay: Relay) -> Endpoint:
    return msgspec.structs.replace(endpoint, url=f"https://127.0.0.1:{relay.port}")


async def test_a_body_that_trickles_in_is_read_to_its_end(
    relay: Relay, server: Endpoint, api: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes several times as long as the server may be silent."""
    with BlockingClient(api) as direct:
        direct.create(CONFIG_MAPS, config_map("large", "default", a=LARGE))
    key = Key("default", "large")
    async with Client.connect(server) as client:
        with BlockingClient(server) as blocking:
            await client.get(CONFIG_MAPS, key)  # the handshake, at full speed
            await asyncio.to_thread(blocking.get, CONFIG_MAPS, key)
            for module in (http_transport, blocking_transport):
                monkeypatch.setattr(module, "TIMEOUT", SILENCE)
            relay.piece, relay.delay = 8192, SILENCE / 20  # half a TLS record
            began = time.monotonic()
            both = client.get(CONFIG_MAPS, key), asyncio.to_thread(blocking.get, CONFIG_MAPS, key)
            answers = await asyncio.gather(*(timed(call) for call in both))
    assert [answer.data for answer, _ in answers] == [{"a": LARGE}] * 2
    assert all(ended - began > 2 * SILENCE for _, ended in answers)


async def timed(call: Awaitable[T]) -> tuple[T, float]:
    """The answer of a call, and when it came."""
    return await call, time.monotonic()


async def test_a_server_that_falls_silent_is_unreachable(relay: Relay, server: Endpoint) -> None:
    async with Client.connect(server) as client:
        with BlockingClient(server) as blocking:
            listed = await client.list(CONFIG_MAPS)
            await asyncio.to_thread(blocking.list, CONFIG_MAPS)
            relay.go_dead()
            with pytest.MonkeyPatch.context() as impatience:  # an answer is not possible any more
                for module in (http_transport, blocking_transport):
                    impatience.setattr(module, "TIMEOUT", 1.0)
                for module in (connection_pool, blocking_transport):
                    impatience.setattr(module, "CONNECT_TIMEOUT", 1.0)
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

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received, began = 0, time.monotonic()
        with closing(writer):
            while received < size:
                slow = time.monotonic() - began < 2 * limit
                await asyncio.sleep(0.02 if slow else 0)  # pace: the server reads slowly, then fast
                received += len(await reader.read(1 << 16 if slow else 1 << 20))
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

    size, limit = 50 << 20, 5.0
    listening = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 19)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    transport = HttpTransport(Endpoint(url))
    call = request.Request("POST", "/x", (), bytes(size), timeout=limit)
    began = time.monotonic()
    with BlockingClient(Endpoint(url)) as blocking:
        both = transport.send(call), asyncio.to_thread(blocking.send, call)
        answers = await asyncio.gather(*(timed(sending) for sending in both))
    await transport.close()
    listening.close()

    assert [answer.status for answer, _ in answers] == [200, 200]
    assert all(ended - began > 2 * limit for _, ended in answers)
