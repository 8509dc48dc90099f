"""Addresses at which this machine reaches services of a cluster without root.

The virtual addresses of such a cluster exist only in the network of its pods. But every user may
listen at any address of 127.0.0.0/8, so each service has one there: its virtual address with 127
as the first number. Only root may listen on the lowest ports; 8000 is added to them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from localkube.node.network.services.ports import API_SERVICE, has_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.core import Service, ServicePort

_ADDED_TO_LOW_PORTS = 8000
_LOWEST_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")


class Place(NamedTuple):
    """An address and a port of this machine."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


def host_places(service: Service, lowest: int) -> Iterator[tuple[Place, ServicePort]]:
    """The TCP ports of a service, each with its place on this machine.

    `lowest` is the lowest port that our user may listen on. The API needs no place: it has an
    address of its own.
    """
    if not has_address(service) or service.metadata.key == API_SERVICE:
        return
    address = f"127.{service.spec.cluster_ip.partition('.')[2]}"
    own = {port.port for port in service.spec.ports}
    for port in service.spec.ports:
        number = port.port
        if number < lowest:
            number += _ADDED_TO_LOW_PORTS
            if number in own:
                continue
        if port.protocol == "TCP":
            yield Place(address, number), port


def lowest_port() -> int:
    """The lowest port that our user may listen on."""
    if os.geteuid() == 0:
        return 1
    try:
        return int(_LOWEST_PORT.read_text())
    except OSError:  # not Linux
        return 1024
