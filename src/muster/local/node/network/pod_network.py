"""The pods' network as the agent sees it.

The base class is the machine's own network, for pods without namespaces; `BridgeNetwork` and
`RootlessNetwork` are the networks of pods with namespaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from socket import socket

LOOPBACK = "127.0.0.1"


@dataclass
class ExternalAccess:
    """How pods reach networks outside the machine."""

    method: str = ""
    """`NAT`, or the name of a program; empty if pods have no access."""
    unavailable_reason: str = ""


class Network:
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

    def listen(self, port: int) -> socket | None:
        """A listening socket at the gateway, where binding to `server_addresses` cannot work."""
        return None

    def open(self, live: Collection[str] = ()) -> None:
        """Bring the network up; links of pods whose address is not in `live` are removed."""

    def close(self) -> None:
        """Remove the network. No pod may be left."""
