"""The pods' network: one bridge, one address per pod name, one veth pair per running pod.

Opened by `local/up.py` before the API server (which listens on `gateway`), used by the namespaces
runtime. An address belongs to a namespace/pod name and is kept when the pod goes, so a replacement
is found where its peers look for it; the longest unused is taken back when the subnet is full.
Everything is named by a hash of the data directory, which is how leftovers of a crash are found and
swept, and how two clusters on one machine keep out of each other's way.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
from typing import TYPE_CHECKING

from muster.errors import UsageError
from muster.local.node.network.nat import Nat, name_servers
from muster.local.node.runtime.pod_records import write_atomically
from muster.local.node.standalone.linux.netlink import Netlink

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator
    from pathlib import Path

    from muster.api.meta import Key

Address = ipaddress.IPv4Address
Subnet = ipaddress.IPv4Network

_PREFIX = 20
_SUBNETS = 1 << (_PREFIX - 8)


def candidate_subnets(seed: int) -> Iterator[Subnet]:
    """Private subnets in an order that differs by data directory."""
    for step in range(_SUBNETS):
        number = (seed + 257 * step) % _SUBNETS
        yield Subnet(((10 << 24) + (number << (32 - _PREFIX)), _PREFIX))


def free_subnet(taken: Iterable[Subnet], seed: int) -> Subnet:
    """The first candidate that no existing route touches."""
    busy = [network for network in taken if network.prefixlen]
    for subnet in candidate_subnets(seed):
        if not any(subnet.overlaps(network) for network in busy):
            return subnet
    raise UsageError("no free private subnet for pods: routes cover all of 10.0.0.0/8")


class Addresses:
    """Who has which address. Pure but for the order of asking."""

    def __init__(self, subnet: Subnet, given: dict[str, str] | None = None) -> None:
        self.subnet = subnet
        self.gateway = subnet[1]
        self._given = {
            name: Address(text)
            for name, text in (given or {}).items()
            if Address(text) in subnet and Address(text) != self.gateway
        }
        self._used = set(self._given.values())
        self._next = 2

    def of(self, key: Key) -> Address | None:
        """The address a name has or had."""
        return self._given.get(str(key))

    def give(self, key: Key, busy: Container[str] = ()) -> tuple[Address, bool]:
        """The name's address, and whether it is a new one. Names in `busy` never lose theirs."""
        name = str(key)
        if name in self._given:
            self._given[name] = self._given.pop(name)  # asked for last: taken back last
            return self._given[name], False
        address = self._free() or self._take_back(busy)
        self._given[name] = address
        self._used.add(address)
        return address, True

    def _free(self) -> Address | None:
        size = self.subnet.num_addresses
        for offset in range(size):
            number = 2 + (self._next - 2 + offset) % (size - 3)
            address = self.subnet[number]
            if address not in self._used:
                self._next = number + 1
                return address
        return None

    def _take_back(self, busy: Container[str]) -> Address:
        for name in self._given:
            if name not in busy:
                return self._given.pop(name)
        raise UsageError(f"all {self.subnet.num_addresses} addresses of {self.subnet} are in use")

    def table(self) -> dict[str, str]:
        return {name: str(address) for name, address in self._given.items()}


class BridgeNetwork:
    """The real one. `open` before anything else, `close` when no pod is left."""

    def __init__(self, data_dir: Path) -> None:
        digest = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()
        self.bridge = f"muster{digest[:8]}"
        self.prefix = f"mu{digest[:8]}"
        self._seed = int(digest[8:16], 16)
        self._file = data_dir / "network"
        self.outside = Nat(self.bridge)
        self._addresses: Addresses | None = None

    @property
    def addresses(self) -> Addresses:
        if self._addresses is None:
            raise UsageError("the pods' network is not open")
        return self._addresses

    @property
    def gateway(self) -> str:
        """The host's address among the pods."""
        return str(self.addresses.gateway)

    @property
    def holder(self) -> int:
        """The process whose namespaces pods are made in; 0 for our own."""
        return 0

    @property
    def way_out(self) -> str:
        """How pods reach the world outside; empty if they do not."""
        return self.outside.how

    @property
    def no_way_out(self) -> str:
        """Why they do not."""
        return self.outside.why_not

    @property
    def servers(self) -> list[str]:
        """Name servers that pods can ask."""
        return name_servers() if self.way_out else []

    @property
    def resolver(self) -> str:
        """`/etc/resolv.conf` for pods: the machine's servers if they can be reached. Else nothing
        answers, at the gateway, so a name that is not in `/etc/hosts` (yet) fails at once, where an
        unreachable server would cost many seconds."""
        lines = [f"nameserver {server}" for server in self.servers or [self.gateway]]
        return "\n".join([*lines, "options timeout:1 attempts:1", ""])

    def open(self, live: Collection[str] = ()) -> None:
        """Bring the bridge up; links of pods whose address is not in `live` are swept."""
        with Netlink() as net:
            bridge = net.link(self.bridge)
            own = bridge.number if bridge else -1
            self.choose_subnet(n for n, link in net.networks().items() if link != own)
            if bridge is None:
                net.add_bridge(self.bridge)
                bridge = net.link(self.bridge)
                assert bridge is not None
            with contextlib.suppress(FileExistsError):
                net.add_address(bridge.number, self.interface)
            keep = {self._link(Address(text)) for text in live}
            for link in net.links():
                if link.name.startswith(self.prefix) and link.name not in keep:
                    net.delete(link.number)
        self.outside.open(self.addresses.subnet)

    def choose_subnet(self, taken: Iterable[Subnet]) -> None:
        """The former subnet while it is free, so that names keep their addresses."""
        self._addresses = self._remembered(list(taken))
        self._save()

    @property
    def interface(self) -> ipaddress.IPv4Interface:
        """The bridge's own address."""
        return ipaddress.IPv4Interface((self.gateway, self.addresses.subnet.prefixlen))

    def give(self, key: Key, busy: Container[str] = ()) -> str:
        """The address of a pod name, the same one as long as it is remembered."""
        address, new = self.addresses.give(key, busy)
        if new:
            self._save()
        return str(address)

    def link(self, address: str) -> dict[str, str]:
        """What a pod's first process has to make and configure for this address."""
        return {
            "link": self._link(Address(address)),
            "bridge": self.bridge,
            "address": f"{address}/{self.addresses.subnet.prefixlen}",
            "gateway": self.gateway,
        }

    def detach(self, address: str) -> None:
        """Remove a pod's link now; the kernel would, some time after the namespace is gone."""
        with Netlink() as net, contextlib.suppress(OSError):
            link = net.link(self._link(Address(address)))
            if link is not None:
                net.delete(link.number)

    def close(self) -> None:
        """Remove the bridge and every link in it."""
        with Netlink() as net:
            for link in net.links():
                if link.name == self.bridge or link.name.startswith(self.prefix):
                    with contextlib.suppress(OSError):  # a pair goes with its other end
                        net.delete(link.number)
        self.outside.close()

    def _link(self, address: Address) -> str:
        offset = int(address) - int(self.addresses.subnet.network_address)
        return f"{self.prefix}{offset:04x}"

    def _remembered(self, taken: list[Subnet]) -> Addresses:
        try:
            facts = json.loads(self._file.read_text(encoding="utf-8"))
            subnet = Subnet(facts["subnet"])
        except (OSError, ValueError, KeyError):
            return Addresses(free_subnet(taken, self._seed))
        if any(subnet.overlaps(network) for network in taken if network.prefixlen):
            return Addresses(free_subnet(taken, self._seed))
        return Addresses(subnet, facts.get("addresses"))

    def _save(self) -> None:
        facts = {"subnet": str(self.addresses.subnet), "addresses": self.addresses.table()}
        write_atomically(self._file, json.dumps(facts))
