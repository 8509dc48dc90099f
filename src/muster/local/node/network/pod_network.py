"""What the agent needs of the pods' network, whichever kind the machine allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection
    from socket import socket

LOOPBACK = "127.0.0.1"


class ExternalAccess(Protocol):
    """How pods reach networks outside the machine."""

    @property
    def method(self) -> str:
        """`NAT`, or the name of a program; empty if pods cannot."""

    @property
    def unavailable_reason(self) -> str:
        """Why pods cannot."""


class Network(Protocol):
    @property
    def gateway(self) -> str:
        """The address of this machine as pods see it."""

    @property
    def external(self) -> ExternalAccess: ...

    @property
    def server_addresses(self) -> tuple[str, ...]:
        """Addresses at which a server of this process can listen for pods, besides loopback."""

    def listen(self, port: int) -> socket | None:
        """A listening socket at the gateway, where binding to `server_addresses` cannot work."""

    def open(self, live: Collection[str] = ()) -> None:
        """Bring the network up; links of pods whose address is not in `live` are removed."""

    def close(self) -> None:
        """Remove the network. No pod may be left."""


class HostNetwork:
    """The machine's own network, for pods without namespaces."""

    gateway = LOOPBACK
    server_addresses: tuple[str, ...] = ()
    method = "the machine's own network"
    unavailable_reason = ""

    @property
    def external(self) -> ExternalAccess:
        return self

    def listen(self, port: int) -> None:
        return None

    def open(self, live: Collection[str] = ()) -> None:
        """Nothing to bring up."""

    def close(self) -> None:
        """Nothing to remove."""
