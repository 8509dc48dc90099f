"""Addresses of pods: the cluster's subnet, and one address per pod name.

A pod name keeps its address when the pod is deleted, so that peers reach the replacement at the
address that they know. When the subnet is full, the address that was unused longest is reused.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from muster.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from muster.api.meta import Key

Address = ipaddress.IPv4Address
Subnet = ipaddress.IPv4Network

_PREFIX = 20
_SUBNETS = 1 << (_PREFIX - 8)


def candidate_subnets(seed: int) -> Iterator[Subnet]:
    """Subnets of 10.0.0.0/8, in an order that depends on the seed."""
    for step in range(_SUBNETS):
        # An odd step visits all of them, because their number is a power of two.
        number = (seed + 257 * step) % _SUBNETS
        yield Subnet(((10 << 24) + (number << (32 - _PREFIX)), _PREFIX))


def overlaps(subnet: Subnet, routes: Iterable[Subnet]) -> bool:
    """Whether a route leads into the subnet; default routes do not count."""
    return any(subnet.overlaps(route) for route in routes if route.prefixlen)


def free_subnet(routes: Iterable[Subnet], seed: int) -> Subnet:
    """The first candidate that no route overlaps."""
    routes = list(routes)
    for subnet in candidate_subnets(seed):
        if not overlaps(subnet, routes):
            return subnet
    raise UsageError("no free private subnet for pods: routes cover all of 10.0.0.0/8")


class Addresses:
    """The addresses of pod names; the least recently used name is first."""

    def __init__(self, subnet: Subnet, saved: dict[str, str] | None = None) -> None:
        self.subnet = subnet
        self.gateway = subnet[1]
        self._by_name = {
            name: Address(text)
            for name, text in (saved or {}).items()
            if Address(text) in subnet and Address(text) != self.gateway
        }
        self._used = set(self._by_name.values())
        self._next = 2

    def find(self, key: Key) -> Address | None:
        """The address that a pod name has or had."""
        return self._by_name.get(str(key))

    def allocate(self, key: Key, busy: Container[str] = ()) -> tuple[Address, bool]:
        """The address of a pod name, and whether it is new. Names in `busy` keep theirs."""
        name = str(key)
        if name in self._by_name:
            self._by_name[name] = self._by_name.pop(name)  # now the most recently used
            return self._by_name[name], False
        address = self._free() or self._reuse(busy)
        self._by_name[name] = address
        self._used.add(address)
        return address, True

    def _free(self) -> Address | None:
        size = self.subnet.num_addresses
        for offset in range(size):
            # Not the network (0), the gateway (1) or the broadcast address (the last one).
            number = 2 + (self._next - 2 + offset) % (size - 3)
            address = self.subnet[number]
            if address not in self._used:
                self._next = number + 1
                return address
        return None

    def _reuse(self, busy: Container[str]) -> Address:
        for name in self._by_name:
            if name not in busy:
                return self._by_name.pop(name)
        raise UsageError(f"all {self.subnet.num_addresses} addresses of {self.subnet} are in use")

    def table(self) -> dict[str, str]:
        return {name: str(address) for name, address in self._by_name.items()}
