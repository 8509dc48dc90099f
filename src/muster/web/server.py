"""Serving the dashboard on loopback, at no cost until the first request comes; or in a pod.

The port of `arena up` listens from the start, but nobody accepts: the kernel keeps the first
connection, and only then are the templates, views and the server imported. So `arena up` is not
slower, and a cluster whose dashboard nobody opens has no memory for it.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import socket
from typing import TYPE_CHECKING

from kubekit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.transport.connection_pool import Connector
    from kubekit.serving.listener import Listener
    from muster.web.access.gate import Policy

    Accept = Callable[[socket.socket, web.Server], Listener]
    """Accepts the connections of a socket, with limits for users who have not logged in."""

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 7080
_PORTS_TO_TRY = 100
_STOP_SECONDS = 1.0


def listen(port: int | None, last_port: int | None = None) -> socket.socket:
    """A socket on this port; without one, on the last port, the default port or a later one."""
    if port is not None:
        try:
            return socket.create_server((ADDRESS, port))
        except OSError as error:
            raise UsageError(
                f"the dashboard cannot listen on port {port}: {error.strerror}",
                hint="`--dashboard-port N` or `--port N` takes another one; 0 is any free one.",
            ) from error
    ports = [last_port] if last_port else []
    for candidate in (*ports, *range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TO_TRY), 0):
        try:
            return socket.create_server((ADDRESS, candidate))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise AssertionError("port 0 is always free")


def listen_everywhere(port: int) -> socket.socket:
    """A socket on this port of every address, for a pod: with IPv4, IPv6 or both."""
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise UsageError(f"cannot listen on port {port}: {error.strerror}") from error


def url_of(listener: socket.socket) -> str:
    """The address of the dashboard, without a token."""
    return f"http://{ADDRESS}:{listener.getsockname()[1]}"


async def serve(
    listener: socket.socket,
    endpoint: Endpoint,
    policy: Policy,
    accept: Accept,
    connector: Connector | None = None,
    serving: asyncio.Event | None = None,
) -> None:
    """Serve until cancelled. The listener stays open, for a later call.

    With `connector`, watches are connections inside this process, which is the API server too.
    With `serving`, which is set when the first page can be made, the pages are loaded at once, else
    when somebody connects.
    """
    if serving is None:
        await _first_connection(listener)
    await asyncio.to_thread(importlib.import_module, "muster.web.app")
    from aiohttp import web

    from muster.web import render
    from muster.web.app import make_app

    await asyncio.to_thread(render.prepare)
    runner = web.AppRunner(
        make_app(endpoint, policy, connector),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=_STOP_SECONDS,
    )
    await runner.setup()
    assert runner.server is not None
    accepting = accept(listener.dup(), runner.server)
    if serving is not None:
        serving.set()
    try:
        await asyncio.Event().wait()
    finally:
        await accepting.close()
        await runner.cleanup()


async def _first_connection(listener: socket.socket) -> None:
    """Wait until somebody connects, without accepting."""
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    connected = asyncio.Event()
    loop.add_reader(listener, connected.set)
    try:
        await connected.wait()
    finally:
        loop.remove_reader(listener)
