"""Logs, commands and proxied requests reach the node agent and come back complete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import WSMsgType, web

from muster.local.apiserver.streams import exec_websocket
from muster.local.apiserver.streams.node_interface import ExecOptions, LogOptions
from tests.local.apiserver.fake_node import FakeNode
from tests.local.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.local.apiserver.running_server import ApiClient

PODS = "/api/v1/namespaces/default/pods"
V5 = "v5.channel.k8s.io"


async def test_logs_come_from_the_node_agent(tmp_path: Path) -> None:
    node = FakeNode()
    async with running_server(tmp_path, node) as api:
        await api.create_pod("a", nodeName="n")
        log = await api.send("GET", f"{PODS}/a/log?follow=true&tailLines=5&timestamps=1")
        bad = await api.send("GET", f"{PODS}/a/log?previous=true")
        no_container = await api.send("GET", f"{PODS}/a/log?container=none")
        none = await api.send("GET", f"{PODS}/none/log")

    assert log.body == "one\ntwo\n"
    assert node.calls[0] == LogOptions("main", follow=True, timestamps=True, tail=5)
    assert (bad.status, bad.body["message"]) == (400, "there was none before")
    assert (no_container.status, none.status) == (400, 404)


async def test_a_pod_without_a_node_has_an_empty_log(api: ApiClient) -> None:
    await api.create_pod("a")

    assert (await api.send("GET", f"{PODS}/a/log")).body == ""


async def run(
    api: ApiClient, query: str, *sent: bytes, protocol: str = V5
) -> tuple[list[tuple[int, bytes]], Any]:
    """What came back on which channel, and the Status at the end."""
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


async def test_a_command_gets_its_input_and_ends_with_it(tmp_path: Path) -> None:
    node = FakeNode()
    async with running_server(tmp_path, node) as api:
        await api.create_pod("a", nodeName="n")
        output, outcome = await run(
            api, "command=cat&stdin=true&stdout=true", b"\x00hello", b"\xff\x00"
        )

    assert output == [(1, b"hello")]
    assert outcome["status"] == "Success"
    assert node.calls == [ExecOptions("main", ("cat",), stdin=True, stdout=True, stderr=False)]


async def test_a_command_may_read_its_input_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is not even heard meanwhile: here it answers no ping."""
    monkeypatch.setattr(exec_websocket, "_PING", 0.02)
    node, sent = FakeNode(), [b"\x00%d" % n for n in range(200)]
    async with running_server(tmp_path, node) as api:
        await api.create_pod("a", nodeName="n")
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


async def test_the_client_gets_the_exit_code_of_a_failing_command(tmp_path: Path) -> None:
    async with running_server(tmp_path, FakeNode()) as api:
        await api.create_pod("a", nodeName="n")
        output, outcome = await run(
            api, "command=exit&command=3&stderr=true", protocol="v4.channel.k8s.io"
        )

    assert output == [(2, b"bye\n")]
    assert outcome["reason"] == "NonZeroExitCode"
    assert outcome["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_a_terminal_gets_its_size(tmp_path: Path) -> None:
    async with running_server(tmp_path, FakeNode()) as api:
        await api.create_pod("a", nodeName="n")
        output, _ = await run(
            api, "command=size&tty=true", b"\x04nonsense", b'\x04{"Width":80,"Height":24}'
        )

    assert output == [(1, b"80x24")]


async def test_an_error_of_the_node_agent_is_the_last_message(tmp_path: Path) -> None:
    async with running_server(tmp_path, FakeNode()) as api:
        await api.create_pod("a", nodeName="n")
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
    tmp_path: Path, path: str, expected: int
) -> None:
    async with running_server(tmp_path, FakeNode()) as api:
        await api.create_pod("a", nodeName="n")
        await api.create_pod("unbound")
        await api.create_pod("done", nodeName="n")
        await api.send("PATCH", f"{PODS}/done/status", {"status": {"phase": "Failed"}}, MERGE)

        assert (await api.send("GET", path)).status == expected


async def test_a_request_is_forwarded_to_the_port_of_a_pod(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers
        text = f"{request.method} {request.path_qs} {await request.text()}"
        return web.Response(text=text, status=418, headers={"X-Pod": "yes"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with running_server(tmp_path, FakeNode((host, port))) as api:
        await api.create_pod("a", nodeName="n")
        reply = await api.send("POST", f"{PODS}/a:80/proxy/x/y?q=1", b"body")
        await runner.cleanup()
        gone = await api.send("GET", f"{PODS}/a:80/proxy/")

    assert (reply.status, reply.body) == (418, "POST /x/y?q=1 body")
    assert reply.headers["X-Pod"] == "yes"
    assert gone.status == 503


async def test_logs_since_a_time_before_all_times_are_all_logs(api: ApiClient) -> None:
    await api.create_pod("a", nodeName="n")

    reply = await api.send("GET", f"{PODS}/a/log?sinceSeconds=99999999999")

    assert reply.status != 500
