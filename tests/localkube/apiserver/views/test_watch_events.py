"""Watches over HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.localkube.apiserver.running_server import MERGE
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.localkube.apiserver.running_server import ApiClient


CM = "/api/v1/namespaces/default/configmaps"


async def test_a_watch_from_before_a_compaction_gets_410(api: ApiClient) -> None:
    created = await api.send("POST", CM, {"metadata": {"name": "a"}})
    for i in range(5):
        await api.send("PATCH", f"{CM}/a", {"data": {"i": str(i)}}, MERGE)
    await api.server.store.compact(api.server.store.revision)
    version = created.body["metadata"]["resourceVersion"]

    event = (await api.send("GET", f"{CM}?watch=1&resourceVersion={version}")).body

    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["reason"] == "Expired"


async def test_a_watch_sees_a_write_before_the_next_request_is_answered(api: ApiClient) -> None:
    url = f"{api.server.url}{CM}?watch=1&resourceVersion={api.server.store.revision}"
    async with asyncio.timeout(60), api.session.get(url) as response:
        for i in range(3):
            await api.send("POST", CM, {"metadata": {"name": f"c{i}"}})
            event = msgspec.json.decode(await response.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", f"c{i}")


async def test_a_watcher_that_disconnects_without_reading_causes_no_warning(
    api: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    server = api.server
    trust = ssl.create_default_context(cadata=server.ca.decode())
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=trust, server_hostname="127.0.0.1", limit=1024
    )
    request = (
        f"GET {CM}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    )
    writer.write(request.encode())
    await reader.readuntil(b"\r\n\r\n")
    (watch,) = server.store._watches["configmaps"]
    large = {"v": "x" * 1_000_000}
    for i in range(100):
        if len(watch._waiting) > 3:  # the socket is full, so the server waits for the client
            break
        await api.send("POST", CM, {"metadata": {"name": f"c{i}"}, "data": large})
    else:
        pytest.fail("the socket never became full")
    reset = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

    writer.transport.abort()

    await eventually(lambda: not server.store._watches["configmaps"], what="the watch's end")
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []
