"""Connections that are given up while they are opened."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest

from kubekit.client.transport.connection import Connection
from kubekit.client.transport.connection_pool import ConnectionPool, EncodedRequest
from tests.controlplane.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def silent_server(tmp_path: Path) -> Iterator[tuple[int, ssl.SSLContext]]:
    """The port of a server that says nothing after the handshake, and the context for clients."""
    authority = Authority()
    pair = authority.server()
    (tmp_path / "server.pem").write_bytes(pair.certificate + pair.key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.pem")
    gone = threading.Event()

    def serve() -> None:
        peer, _ = listener.accept()
        with tls.wrap_socket(peer, server_side=True):
            gone.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield (
            listener.getsockname()[1],
            ssl.create_default_context(cadata=authority.certificate.decode()),
        )
        gone.set()
        thread.join()


async def test_a_connection_that_is_given_up_after_its_handshake_waits_for_no_server(
    silent_server: tuple[int, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Connection] = []
    task: asyncio.Task[object] | None = None

    original = Connection.connection_made

    def connection_made(connection: Connection, transport: asyncio.BaseTransport) -> None:
        original(connection, transport)
        made.append(connection)
        assert task is not None
        task.cancel()

    monkeypatch.setattr(Connection, "connection_made", connection_made)
    port, tls = silent_server
    pool = ConnectionPool(f"https://127.0.0.1:{port}")
    pool.set_tls_context(tls)
    task = asyncio.create_task(pool.exchange(EncodedRequest(b"", idempotent=False)))
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(made) == 1
    await asyncio.wait_for(made[0].closed, 10)
