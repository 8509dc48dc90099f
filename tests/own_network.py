"""A network namespace of its own for each parallel worker that runs as root.

Local clusters of different workers then share no links, addresses, firewall rules or forwarding
switches, and each worker can compare the network before and after a cluster.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager

from localkube.node.standalone.linux import kernel
from localkube.node.standalone.linux.netlink import Netlink

_machine: list[int] = []
"""File descriptors of the former network namespaces; empty in the machine's own."""

ADDRESS = "198.51.100.2"


def enter() -> None:
    """Enter a new network namespace. It has a default route, as machines do, that leads nowhere."""
    _machine.append(os.open("/proc/self/ns/net", os.O_RDONLY))
    kernel.unshare(kernel.CLONE_NEWNET)
    with Netlink() as net:
        net.add_bridge("outside")
        links = net.links()
        net.set_up(links["lo"])
        net.add_address(links["outside"], ipaddress.IPv4Interface(f"{ADDRESS}/24"))
        net.add_default_route(ipaddress.IPv4Address("198.51.100.1"))


@contextmanager
def entered() -> Iterator[None]:
    """A new network namespace for one block, in a test process that may be in one already."""
    former = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter()
    try:
        yield
    finally:
        kernel.setns(former, kernel.CLONE_NEWNET)
        os.close(former)
        os.close(_machine.pop())


def leave() -> None:
    """Return to the machine's network, for a child process that installs packages."""
    for machine in _machine[:1]:
        kernel.setns(machine, kernel.CLONE_NEWNET)
