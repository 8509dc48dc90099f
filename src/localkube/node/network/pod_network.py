"""The pods' network as the agent sees it, and sockets in the network namespaces of pods.

`Network` is the machine's own network, for pods without namespaces; `BridgeNetwork` and
`RootlessNetwork` are the networks of pods with namespaces. The program `open_socket` makes the
sockets in a namespace.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from localkube.node.runtime.processes import start_program
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from kubekit.objects.meta import Key
    from localkube.node.network.service_addresses import ServicePort

LOOPBACK = "127.0.0.1"


class OutOfAddresses(CannotRun):
    """Other pods hold all addresses of the pods' network."""


@dataclass
class ExternalAccess:
    """How pods reach networks outside the machine."""

    method: str = ""
    """`NAT`, or the name of a program; empty if pods have no access."""
    unavailable_reason: str = ""


class Network:
    has_services = False
    """Whether virtual addresses of services lead to their endpoints."""
    host_needs_proxy = True
    """Whether programs on the machine's own network reach services only through a proxy."""
    service_range = IPv4Network("10.96.0.0/16")
    """The virtual addresses of services."""

    def __init__(self) -> None:
        self.external = ExternalAccess("the machine's own network")

    @property
    def gateway(self) -> str:
        """The address of this machine as pods see it."""
        return LOOPBACK

    @property
    def server_addresses(self) -> tuple[str, ...]:
        """Addresses at which a server of this process can listen for pods, besides loopback."""
        return ()

    def listen(self, port: int) -> socket.socket | None:
        """A listening socket at the gateway, where binding to `server_addresses` cannot work."""
        return None

    def open_services(self) -> None:
        """Make the virtual addresses of services addresses of the machine that pods see."""

    def close_services(self) -> None:
        """Write no rules from now on; those of the kernel stay."""

    def write_service_rules(self, ports: list[ServicePort]) -> None:
        """Let the kernel lead virtual addresses to these endpoints; OSError or CannotRun if it
        cannot."""

    def listen_at(self, address: str, port: int) -> socket.socket:
        """A listening socket at a virtual address."""
        raise NotImplementedError

    async def connect(self, address: str, port: int) -> socket.socket:
        """A connection to an endpoint of a service."""
        return await connect_from_host(address, port)

    async def dial(self, address: str, port: int) -> socket.socket:
        """A connection to any address, also of pods and services."""
        return await connect_from_host(address, port)

    def address(self, key: Key) -> str:
        """The address that a pod of this name has or will have; empty if it has none yet."""
        return LOOPBACK

    def last_address(self, key: Key) -> str:
        """The last address of a pod of this name; empty if unknown."""
        return LOOPBACK

    async def save_addresses(self) -> None:
        """Write the addresses of pod names to disk if there are new ones."""

    def open(self, live: Collection[str] = ()) -> None:
        """Bring the network up; links of pods whose address is not in `live` are removed."""

    def close(self) -> None:
        """Remove the network. No pod may be left."""


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
    request = partial(open_in_namespace, pid, errors, connect=(address, port))
    sock = await opened_in_thread(request)
    sock.setblocking(False)
    return sock


async def opened_in_thread(open_socket: Callable[[], socket.socket]) -> socket.socket:
    """The socket that this function opens in a thread; closed if nobody waits for it any more."""
    opened: Future[socket.socket] = Future()
    try:
        await asyncio.to_thread(lambda: opened.set_result(open_socket()))
    except asyncio.CancelledError:  # the thread goes on
        opened.add_done_callback(lambda done: done.result().close())
        raise
    return opened.result()


def open_in_namespace(pid: int, errors: Path, **request: Any) -> socket.socket:
    """A socket in the network namespace of a process; the program `open_socket` says which kinds
    there are."""
    arguments = [json.dumps({"pid": pid, **request})]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        helper = start_program("open_socket", arguments, {0: theirs.fileno()}, errors)
        theirs.close()
        message, fds, _, _ = socket.recv_fds(ours, 4096, 1)
        os.waitpid(helper, 0)
    if not fds:
        reason = message.decode().removeprefix("no")
        raise CannotRun(reason or "the helper program exited without a message")
    os.set_inheritable(fds[0], False)  # received descriptors are inheritable: pods would keep it
    return socket.socket(fileno=fds[0])
