"""Addresses of pods: the cluster's subnet, and one address per pod name.

Only pods with a node hold an address. A name keeps its address when its pod ends or is deleted, so
that peers reach the replacement at the address that they know. When the subnet is full, the address
that was unused longest is reused; a pod waits while other pods hold all of them.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from typing import TYPE_CHECKING

from kubekit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Address = ipaddress.IPv4Address
Subnet = ipaddress.IPv4Network

_PREFIX = 20
_SUBNETS = 1 << (_PREFIX - 8)


def overlaps(subnet: Subnet, routes: Iterable[Subnet]) -> bool:
    """Whether a route leads into the subnet; default routes do not count."""
    return any(subnet.overlaps(route) for route in routes if route.prefixlen)


def free_subnet(routes: Iterable[Subnet], seed: int) -> Subnet:
    """A subnet of 10.0.0.0/8 that no route overlaps; the seed says which one is tried first."""
    routes = list(routes)
    for step in range(_SUBNETS):
        # An odd step visits all of them, because their number is a power of two.
        number = (seed + 257 * step) % _SUBNETS
        subnet = Subnet(((10 << 24) + (number << (32 - _PREFIX)), _PREFIX))
        if not overlaps(subnet, routes):
            return subnet
    raise UsageError("no free private subnet for pods: routes cover all of 10.0.0.0/8")


class Addresses:
    """The addresses of pod names: held by pods on this machine, or kept for their replacements."""

    def __init__(self, subnet: Subnet, saved: dict[str, str] | None = None) -> None:
        self.subnet = subnet
        self.gateway = subnet[1]
        self.unsaved = False
        """Whether a name got a new address since this was last set to False."""
        # Not the network (0), the gateway (1) or the broadcast address (the last one).
        addresses = dict.fromkeys(subnet[number] for number in range(2, subnet.num_addresses - 1))
        self.size = len(addresses)
        self._held: dict[str, Address] = {}
        self._kept: dict[str, Address] = {}  # the name that lost its pod longest ago is first
        for name, text in (saved or {}).items():
            address = Address(text)
            if address in addresses:
                del addresses[address]
                self._kept[name] = address
        self._free = deque(addresses)

    def held(self, name: str) -> Address | None:
        """The address that a pod of this name has now."""
        return self._held.get(name)

    def find(self, name: str) -> Address | None:
        """The address that a pod of this name has or had."""
        return self._held.get(name) or self._kept.get(name)

    def assign(self, names: Collection[str]) -> None:
        """Let exactly these names hold addresses, as far as there are enough."""
        for name in [name for name in self._held if name not in names]:
            self._kept[name] = self._held.pop(name)
        missing = [name for name in names if name not in self._held]
        # Names that had an address come first: a new name could take it from them.
        for name in sorted(missing, key=lambda name: name not in self._kept):
            self.hold(name)

    def hold(self, name: str) -> Address | None:
        """Let this name hold its address, or a new one; None if other names hold them all."""
        address = self._held.get(name) or self._kept.pop(name, None)
        if address is None and (self._free or self._kept):
            oldest = next(iter(self._kept), "")
            address = self._free.popleft() if self._free else self._kept.pop(oldest)
            self.unsaved = True
        if address is not None:
            self._held[name] = address
        return address

    def table(self) -> dict[str, str]:
        """All names with their addresses; those whose pods are gone longest come first."""
        return {name: str(address) for name, address in (self._kept | self._held).items()}
