"""Connections into pods, and listening where pods can reach us, through `standalone.dial`.

Used by the namespaces runtime (port-forward) and by the agent (the API server's second address when
there is no root). As in Kubernetes, a forwarded port is one of the pod's own loopback first.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import TYPE_CHECKING, Any

from muster.errors import CannotRun
from muster.local.node.runtime.shims import start_program

if TYPE_CHECKING:
    from pathlib import Path


def _ask(errors: Path, **asked: Any) -> socket.socket:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = start_program("open_socket", [json.dumps(asked)], {0: theirs.fileno()}, errors)
        theirs.close()
        said, fds, _, _ = socket.recv_fds(ours, 4096, 1)
        os.waitpid(pid, 0)
    if not fds:
        raise CannotRun(said.decode().removeprefix("no") or "the helper ended without a word")
    os.set_inheritable(fds[0], False)  # it comes otherwise, and pods would keep it open
    return socket.socket(fileno=fds[0])


async def connect_from_host(address: str, port: int) -> socket.socket:
    """A connection made in our own network."""
    made = socket.socket()
    made.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        made.close()
        raise
    return made


async def connect_from_pod(pid: int, places: list[tuple[str, int]], errors: Path) -> socket.socket:
    """A connection from inside the pod whose first process this is, to the first that answers."""
    made = await asyncio.to_thread(_ask, errors, pid=pid, connect=places)
    made.setblocking(False)
    return made


def listen_in_namespace(pid: int, address: str, port: int, errors: Path) -> socket.socket:
    """A listening socket in the network of that process."""
    return _ask(errors, pid=pid, listen=(address, port))
