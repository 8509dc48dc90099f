"""Sockets in the network namespaces of pods, made there by the program `open_socket`."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import TYPE_CHECKING, Any

from kubekit.errors import CannotRun
from localkube.node.runtime.processes import start_program

if TYPE_CHECKING:
    from pathlib import Path


def _open(errors: Path, **request: Any) -> socket.socket:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = start_program("open_socket", [json.dumps(request)], {0: theirs.fileno()}, errors)
        theirs.close()
        message, fds, _, _ = socket.recv_fds(ours, 4096, 1)
        os.waitpid(pid, 0)
    if not fds:
        reason = message.decode().removeprefix("no")
        raise CannotRun(reason or "the helper program exited without a message")
    os.set_inheritable(fds[0], False)  # received descriptors are inheritable: pods would keep it
    return socket.socket(fileno=fds[0])


async def connect_from_host(address: str, port: int) -> socket.socket:
    """A connection from the machine's own network."""
    sock = socket.socket()
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


async def connect_from_pod(pid: int, address: str, port: int, errors: Path) -> socket.socket:
    """A connection from inside the pod of this process."""
    sock = await asyncio.to_thread(_open, errors, pid=pid, connect=(address, port))
    sock.setblocking(False)
    return sock


def listen_in_namespace(pid: int, address: str, port: int, errors: Path) -> socket.socket:
    """A listening socket in the network namespace of a process."""
    return _open(errors, pid=pid, listen=(address, port))


def netlink_in_namespace(pid: int, protocol: int, errors: Path) -> socket.socket:
    """A netlink socket to the kernel, for the network namespace of a process."""
    return _open(errors, pid=pid, netlink=protocol)
