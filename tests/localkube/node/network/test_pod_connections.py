"""Connections from inside a pod, which a helper program opens."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from localkube.node.network import pod_network
from localkube.node.network.pod_network import connect_from_pod
from tests.waiting import eventually


async def test_a_connection_that_nobody_waits_for_any_more_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that has waited long enough cannot stop the thread that connects."""
    begun, go_on = threading.Event(), threading.Event()
    sock = socket.socket()

    def slow(*_: Any, **__: Any) -> socket.socket:
        begun.set()
        go_on.wait()
        return sock

    monkeypatch.setattr(pod_network, "open_in_namespace", slow)
    connecting = asyncio.create_task(connect_from_pod(1, "10.0.0.1", 80, Path("errors")))
    await eventually(begun.is_set)
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)
    before = sock.fileno()
    go_on.set()
    with sock:
        await eventually(lambda: sock.fileno() < 0, timeout=10, what="closing the connection")

    assert connecting.cancelled()
    assert before >= 0
