"""The pods' network as the agent sees it.

The base class is the machine's own network, for pods without namespaces; `BridgeNetwork` and
`RootlessNetwork` are the networks of pods with namespaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from localkube.node.network import pod_sockets

if TYPE_CHECKING:
    from collections.abc import Collection
    from socket import socket

    from localkube.node.network.services.ports import ServicePort

LOOPBACK = "127.0.0.1"


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

    def __init__(self) -> None:
        self.external = ExternalAccess("the machine's own network")

    @property
    def service_range(self) -> IPv4Network:
        """The virtual addresses of services."""
        return IPv4Network("10.96.0.0/16")

    @property
    def gateway(self) -> str:
        """The address of this machine as pods see it."""
        return LOOPBACK

    @property
    def server_addresses(self) -> tuple[str, ...]:
        """Addresses at which a server of this process can listen for pods, besides loopback."""
        return ()

    def listen(self, port: int) -> socket | None:
        """A listening socket at the gateway, where binding to `server_addresses` cannot work."""
        return None

    def open_services(self) -> None:
        """Make the virtual addresses of services addresses of the machine that pods see."""

    def close_services(self) -> None:
        """Write no rules from now on; those of the kernel stay."""

    def write_service_rules(self, ports: list[ServicePort]) -> None:
        """Let the kernel lead virtual addresses to these endpoints; OSError or CannotRun if it
        cannot."""

    def listen_at(self, address: str, port: int) -> socket:
        """A listening socket at a virtual address."""
        raise NotImplementedError

    async def connect(self, address: str, port: int) -> socket:
        """A connection to an endpoint of a service."""
        return await pod_sockets.connect_from_host(address, port)

    def open(self, live: Collection[str] = ()) -> None:
        """Bring the network up; links of pods whose address is not in `live` are removed."""

    def close(self) -> None:
        """Remove the network. No pod may be left."""
