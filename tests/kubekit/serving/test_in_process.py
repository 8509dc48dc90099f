"""Connections inside the daemon: like sockets, without descriptors."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key
from kubekit.request_errors import Unauthorized
from kubekit.serving.listener import connect_in_process
from tests.localkube.apiserver.running_server import ApiClient, running_server
from tests.no_descriptors import no_descriptor_left

BLOCK = bytes(100_000)


class Recorder(asyncio.Protocol):
    """Records what happens to it, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> None:
        self.events.append("eof")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")


class Faulty(Recorder):
    def data_received(self, data: bytes) -> None:
        raise ValueError("a bug")


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _connected(server: Recorder | None = None) -> tuple[Recorder, Recorder]:
    client, server = Recorder(), server or Recorder()
    connect_in_process(client, server)
    return client, server


async def test_bytes_arrive_in_order_and_not_within_the_call_that_writes_them() -> None:
    client, server = _connected()
    client.transport.write(b"one ")
    client.transport.writelines([b"two ", bytearray(b"three")])
    within = server.received
    await _turns()

    assert within == b""
    assert server.received == b"one two three"


async def test_a_writer_waits_for_a_reader_that_does_not_read() -> None:
    client, server = _connected()
    client.transport.pause_reading()
    for _ in range(3):
        server.transport.write(BLOCK)
    await _turns()
    waiting, unread = list(server.events), server.transport.get_write_buffer_size()
    client.transport.resume_reading()
    await _turns()

    assert waiting == ["pause"]
    assert unread == 3 * len(BLOCK)
    assert server.events == ["pause", "resume"]
    assert len(client.received) == 3 * len(BLOCK)


async def test_close_delivers_what_was_written_before() -> None:
    client, server = _connected()
    server.transport.write(b"the end")
    server.transport.close()
    await _turns()

    assert client.received == b"the end"
    assert client.events == ["eof", "lost"]
    assert server.events == ["lost"]
    assert client.transport.is_closing()


async def test_a_server_that_neither_reads_nor_may_write_notices_that_its_client_closes() -> None:
    client, server = _connected()
    client.transport.pause_reading()
    server.transport.pause_reading()
    for _ in range(3):
        server.transport.write(BLOCK)
    client.transport.close()
    await _turns()

    assert server.events == ["pause", "resume", "eof", "lost"]
    assert client.events == ["lost"]


async def test_abort_ends_both_at_once() -> None:
    client, server = _connected()
    client.transport.write(b"lost")
    client.transport.abort()
    client.transport.abort()
    await _turns()

    assert (client.events, server.events, server.received) == (["lost"], ["lost"], b"")


async def test_an_error_of_a_protocol_ends_only_its_connection() -> None:
    problems: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(str(context["exception"])))
    client, server = _connected(Faulty())
    client.transport.write(b"x")
    await _turns()
    loop.set_exception_handler(None)

    assert problems == ["a bug"]
    assert (client.events, server.events) == (["lost"], ["lost"])


def _client(api: ApiClient, token: str) -> Client:
    endpoint = Endpoint.with_token(api.server.url, token, ca=api.server.ca)
    return Client.connect(endpoint, connector=api.server.listeners.connect)


async def test_a_client_inside_the_daemon_needs_no_descriptor(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api, _client(api, api.server.token) as client:
        before = len(os.listdir("/proc/self/fd"))
        since = (await client.list(CONFIG_MAPS, "default")).resource_version
        watches = [client.watch(CONFIG_MAPS, "default", since=since) for _ in range(20)]
        firsts = [asyncio.ensure_future(anext(watch)) for watch in watches]
        large = {"metadata": {"name": "large"}, "data": {"key": "x" * 900_000}}
        with no_descriptor_left():
            await client.create(CONFIG_MAPS, large, namespace="default")
            events = await asyncio.wait_for(asyncio.gather(*firsts), 10)
            read = await client.get(CONFIG_MAPS, Key("default", "large"))
        during = len(os.listdir("/proc/self/fd"))
        for watch in watches:
            await watch.aclose()

    assert {event.object.metadata.name for event in events} == {"large"}
    assert len(read.data["key"]) == 900_000
    assert during == before


async def test_a_client_inside_the_daemon_needs_a_token_too(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api, _client(api, "wrong") as client:
        with pytest.raises(Unauthorized):
            await client.list(CONFIG_MAPS, "default")
