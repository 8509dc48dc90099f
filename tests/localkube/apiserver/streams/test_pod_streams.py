"""Logs and commands reach the node agent and come back complete."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import WSMsgType

from localkube.apiserver.streams import exec_websocket
from localkube.node_interface import ExecOptions, LogOptions
from tests.localkube.apiserver.fake_node import FakeNode
from tests.localkube.apiserver.running_server import MERGE, running_server
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

PODS = "/api/v1/namespaces/default/pods"
V5 = "v5.channel.k8s.io"


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
async def api(tmp_path: Path, node: FakeNode) -> AsyncIterator[ApiClient]:
    """A server with a node agent, on which pod `a` runs."""
    async with running_server(tmp_path, node) as api:
        await api.create_pod("a", nodeName="n")
        yield api


async def test_logs_come_from_the_node_agent(api: ApiClient, node: FakeNode) -> None:
    log = await api.send("GET", f"{PODS}/a/log?follow=true&tailLines=5&timestamps=1")
    no_previous = await api.send("GET", f"{PODS}/a/log?previous=true")
    no_container = await api.send("GET", f"{PODS}/a/log?container=none")
    no_pod = await api.send("GET", f"{PODS}/none/log")

    assert log.body == "one\ntwo\n"
    assert node.calls[0] == LogOptions("main", follow=True, timestamps=True, tail=5)
    assert (no_previous.status, no_previous.body["message"]) == (400, "there was none before")
    assert (no_container.status, no_pod.status) == (400, 404)


async def test_a_pod_without_a_node_has_an_empty_log(api: ApiClient) -> None:
    await api.create_pod("unbound")

    assert (await api.send("GET", f"{PODS}/unbound/log")).body == ""


async def test_logs_since_a_time_before_the_year_1_are_all_logs(api: ApiClient) -> None:
    reply = await api.send("GET", f"{PODS}/a/log?sinceSeconds=99999999999")

    assert (reply.status, reply.body) == (200, "one\ntwo\n")


async def run(
    api: ApiClient, query: str, *sent: bytes, protocol: str = V5
) -> tuple[list[tuple[int, bytes]], Any]:
    """The channel and content of each answer, and the Status at the end."""
    url = f"{api.server.url}{PODS}/a/exec?{query}"
    messages: list[tuple[int, bytes]] = []
    async with (
        asyncio.timeout(60),
        api.session.ws_connect(url, protocols=(protocol,)) as socket,
    ):
        assert socket.protocol == protocol
        for message in sent:
            await socket.send_bytes(message)
        async for received in socket:
            assert received.type == WSMsgType.BINARY
            messages.append((received.data[0], received.data[1:]))
    return messages[:-1], msgspec.json.decode(messages[-1][1])


async def test_a_command_gets_its_input_and_ends_with_it(api: ApiClient, node: FakeNode) -> None:
    output, outcome = await run(
        api, "command=cat&stdin=true&stdout=true", b"\x00hello", b"\xff\x00"
    )

    assert output == [(1, b"hello")]
    assert outcome["status"] == "Success"
    assert node.calls == [ExecOptions("main", ("cat",), stdin=True, stdout=True, stderr=False)]


async def test_a_command_that_reads_its_input_late_gets_all_of_it(
    api: ApiClient, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server does not read from the client meanwhile: here the client answers no ping.
    monkeypatch.setattr(exec_websocket, "_PING", 0.02)
    sent = [b"\x00%d" % n for n in range(200)]
    url = f"{api.server.url}{PODS}/a/exec?command=slow&stdin=true&stdout=true"
    received: list[bytes] = []
    async with (
        asyncio.timeout(60),
        api.session.ws_connect(url, protocols=(V5,), autoping=False) as socket,
    ):
        for message in (*sent, b"\xff\x00"):
            await socket.send_bytes(message)
        pings = 0
        async for answer in socket:
            pings += answer.type == WSMsgType.PING
            if pings == 5:
                node.awake.set()
            if answer.type == WSMsgType.BINARY and answer.data[0] == 1:
                received.append(answer.data[1:])

    assert received == [message[1:] for message in sent]


async def test_a_command_ends_with_its_client_also_if_it_does_not_read_its_input(
    api: ApiClient, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = asyncio.Event()

    async def ping_until_it_has_left(_: object) -> None:
        await left.wait()

    monkeypatch.setattr(exec_websocket, "keep_open", ping_until_it_has_left)
    url = f"{api.server.url}{PODS}/a/exec?command=slow&stdin=true"
    async with api.session.ws_connect(url, protocols=(V5,)) as socket:
        for _ in range(200):  # more than the server keeps for the command
            await socket.send_bytes(b"\x00x")
        await eventually(lambda: node.commands == 1)
        left.set()

        await eventually(lambda: node.commands == 0, what="the end of the command")


async def test_the_client_gets_the_exit_code_of_a_failing_command(api: ApiClient) -> None:
    output, outcome = await run(
        api, "command=exit&command=3&stderr=true", protocol="v4.channel.k8s.io"
    )

    assert output == [(2, b"bye\n")]
    assert outcome["reason"] == "NonZeroExitCode"
    assert outcome["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_the_newest_protocol_is_used_wherever_the_client_names_it(api: ApiClient) -> None:
    url = f"{api.server.url}{PODS}/a/exec?command=true&stdout=true"
    offered = ("v4.channel.k8s.io", V5)
    async with asyncio.timeout(60), api.session.ws_connect(url, protocols=offered) as socket:
        assert socket.protocol == V5


async def test_a_terminal_gets_its_size_and_an_impossible_one_is_ignored(api: ApiClient) -> None:
    impossible = (
        b"\x04nonsense", b'\x04{"Width":65536,"Height":24}', b'\x04{"Width":80,"Height":-1}',
        b'\x04{"Width":80,"Height":' + b"1" * 5000 + b"}", b'\x04{"x":' + b"[" * 3000,
    )  # fmt: skip
    output, _ = await run(
        api, "command=size&tty=true", *impossible, b'\x04{"Width":80,"Height":24}'
    )

    assert output == [(1, b"80x24")]


async def test_an_error_of_the_node_agent_is_the_last_message(api: ApiClient) -> None:
    _, outcome = await run(api, "command=nonsense")

    assert (outcome["code"], outcome["message"]) == (400, "no such command")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{PODS}/none/exec?command=x", 404),
        (f"{PODS}/a/exec", 400),
        (f"{PODS}/a/exec?command=x&container=none", 400),
        (f"{PODS}/unbound/exec?command=x", 400),
        (f"{PODS}/done/exec?command=x", 400),
        (f"{PODS}/a/exec?command=x", 400),
    ],
)
async def test_a_command_that_cannot_run_is_rejected_before_the_upgrade(
    api: ApiClient, path: str, expected: int
) -> None:
    await api.create_pod("unbound")
    await api.create_pod("done", nodeName="n")
    await api.send("PATCH", f"{PODS}/done/status", {"status": {"phase": "Failed"}}, MERGE)

    assert (await api.send("GET", path)).status == expected


@pytest.mark.parametrize("query", ["", "&timestamps=1"], ids=["busy", "quiet"])
@pytest.mark.parametrize("polite", [True, False], ids=["closes", "aborts"])
async def test_a_log_ends_when_its_reader_leaves_without_reading(
    api: ApiClient, node: FakeNode, caplog: pytest.LogCaptureFixture, query: str, polite: bool
) -> None:
    context = ssl.create_default_context(cadata=api.server.ca.decode())
    readers = [
        await asyncio.open_connection("127.0.0.1", api.server.port, ssl=context, limit=1024)
        for _ in range(10)
    ]
    path = f"{PODS}/a/log?follow=1&tailLines={node.ENDLESS}{query}"
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.server.token}\r\n\r\n"
    for reader, writer in readers:
        writer.write(head.encode())
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    during = node.streams
    for _, writer in readers:
        if polite:
            writer.close()  # it says so to the server, and reads no more
        else:
            writer.transport.abort()
    await eventually(lambda: node.streams == 0)

    assert during == 10
    assert [r for r in caplog.records if r.name == "asyncio" and "closed" in r.message] == []


class PausedReader(asyncio.Protocol):
    """A client in this process that sends one request, and reads nothing of the answer."""

    def __init__(self, request: str) -> None:
        self._request = request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()
        transport.write(self._request.encode())


async def test_a_log_that_always_has_more_lets_others_work_when_its_reader_leaves(
    api: ApiClient, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = 0
    ended = False

    async def logs(_: object, __: LogOptions) -> AsyncIterator[bytes]:
        nonlocal sent, ended
        try:
            while sent < 1000:
                sent += 1
                yield bytes(200 * 1024)
        finally:
            ended = True

    monkeypatch.setattr(node, "logs", logs)
    head = f"GET {PODS}/a/log HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.server.token}"
    reader = PausedReader(f"{head}\r\n\r\n")
    api.server.listeners.connect(reader)
    await eventually(lambda: sent >= 2)

    # The server may write again at once, and hears only in a later turn that nobody reads it.
    reader.transport.close()
    await eventually(lambda: ended)

    assert sent < 20


async def test_a_quiet_watch_ends_when_its_client_leaves(api: ApiClient) -> None:
    before = len(asyncio.all_tasks())
    watches = [await api.session.get(f"{api.server.url}{PODS}?watch=1") for _ in range(10)]
    for watch in watches:
        await watch.content.readline()  # pod `a`; nothing else will happen
    during = len(asyncio.all_tasks())
    for watch in watches:
        watch.close()
    await eventually(lambda: len(asyncio.all_tasks()) <= before)

    assert during >= before + 10
