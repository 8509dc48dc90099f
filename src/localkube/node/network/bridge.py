"""The pods' network: one bridge, and one veth pair per running pod.

All names contain a hash of the data directory. So the next start finds and removes the links of a
crash, and two clusters on one machine do not collide.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

from kubekit.errors import describe
from kubekit.objects.annotation_values import read_integer
from localkube.data_directory import cluster_hash
from localkube.node.network import service_rules
from localkube.node.network.nat import Nat, name_servers
from localkube.node.network.pod_addresses import Address, Addresses, Subnet, free_subnet, overlaps
from localkube.node.network.pod_network import LOOPBACK, Network, OutOfAddresses, connect_from_host
from localkube.node.standalone.linux import files, netfilter, netlink
from localkube.node.standalone.linux.netlink import Netlink
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from kubekit.objects.meta import Key, Raw
    from localkube.node.network.service_addresses import ServicePort

log = logging.getLogger(__name__)

_BACKLOG = 1024


def owners() -> set[int]:
    """The users of this machine who may reach the pods of root's cluster: root, and whoever ran
    `sudo`."""
    sudo = read_integer(os.environ.get("SUDO_UID", ""), most=2**32 - 2)
    return {0, sudo or 0}


class BridgeNetwork(Network):
    """The bridge in the machine's own network namespace; needs root."""

    has_services = True
    host_needs_proxy = False
    addresses: Addresses
    """Of pods; like the range of services, known when the network is open."""

    def __init__(self, data_dir: Path) -> None:
        digest = cluster_hash(data_dir)
        self.bridge = f"muster{digest[:8]}"
        self.prefix = f"mu{digest[:8]}"
        self._seed = int(digest[8:16], 16)
        self._file = data_dir / "network"
        self.external = self._nat = Nat(self.bridge)
        self._netfilter: socket.socket | None = None
        self._services_open = False
        self._writing_rules = threading.Lock()
        self._saving = asyncio.Lock()

    async def dial(self, address: str, port: int) -> socket.socket:
        if address == self.gateway:
            return await connect_from_host(LOOPBACK, port)
        found = Address(address)
        if found in self.addresses.subnet or found in self.service_range:
            return await self.connect(address, port)
        return await connect_from_host(address, port)

    def address(self, key: Key) -> str:
        return str(self.addresses.held(str(key)) or "")

    def last_address(self, key: Key) -> str:
        return str(self.addresses.find(str(key)) or "")

    @property
    def gateway(self) -> str:
        return str(self.addresses.gateway)

    @property
    def server_addresses(self) -> tuple[str, ...]:
        return (self.gateway,)

    @property
    def holder(self) -> int:
        """The process whose namespaces pods are made in; 0 for our own."""
        return 0

    @property
    def name_servers(self) -> list[str]:
        """Name servers that pods can reach."""
        return name_servers() if self._nat.method else []

    @property
    def resolv_conf(self) -> str:
        """`/etc/resolv.conf` of pods.

        Without a reachable name server it names the gateway, where nothing listens: a name missing
        from `/etc/hosts` then fails at once. An unreachable server would cost many seconds.
        """
        lines = [f"nameserver {server}" for server in self.name_servers or [self.gateway]]
        return "\n".join([*lines, "options timeout:1 attempts:1", ""])

    def open(self, live: Collection[str] = ()) -> None:
        with Netlink() as net:
            bridge = net.index(self.bridge)
            # The route of our own bridge does not make our subnet taken.
            self.choose_subnet(
                n for n, link in net.networks().items() if not bridge or link != bridge
            )
            if not bridge:
                net.add_bridge(self.bridge)
            with contextlib.suppress(FileExistsError):  # the bridge of an earlier daemon has it
                net.add_address(net.index(self.bridge), self.interface)
            live_links = {self._link(Address(text)) for text in live}
            for name, number in net.links().items():
                if name.startswith(self.prefix) and name not in live_links:
                    net.delete(number)
        self._nat.open(self.addresses.subnet)
        self._refuse_other_users()

    def _refuse_other_users(self) -> None:
        subnets = (self.addresses.subnet, self.service_range)
        try:
            netfilter.write_users_table(self._users_table, subnets, owners())
        except OSError as error:
            log.warning("other users of this machine reach pods and services: %s", describe(error))

    @property
    def _users_table(self) -> str:
        return f"{self.bridge}-users"

    def open_services(self) -> None:
        with Netlink(self.netlink(socket.NETLINK_ROUTE)) as net:
            net.add_local_route(net.index(self.bridge), self.service_range, self.addresses.gateway)
        self._services_open = True

    def close_services(self) -> None:
        with self._writing_rules:
            self._services_open = False
            if self._netfilter is not None:
                self._netfilter.close()
                self._netfilter = None

    def write_service_rules(self, ports: list[ServicePort]) -> None:
        # A thread outlives the task that waits for it: no rule may be written after the last one
        # was removed.
        with self._writing_rules:
            if not self._services_open:
                raise CannotRun("the addresses of services are closed")
            if self._netfilter is None:
                self._netfilter = self.netlink(netfilter.PROTOCOL)
            if other := netfilter.forwarding_is_dropped(self._netfilter):
                ours = service_rules.table_name(self.bridge)
                netfilter.apply(netfilter.without_table(ours), self._netfilter)
                message = f"the firewall table {other} of this machine drops forwarded packets"
                raise CannotRun(message)
            pods, services = self.addresses.subnet, self.service_range
            table = service_rules.table(self.bridge, pods, services, ports)
            netfilter.apply(table, self._netfilter)

    def netlink(self, protocol: int) -> socket.socket:
        """A netlink socket to the kernel for the namespace of the bridge."""
        return netlink.connect(protocol)

    def listen_at(self, address: str, port: int) -> socket.socket:
        return socket.create_server((address, port), backlog=_BACKLOG)

    def choose_subnet(self, routes: Iterable[Subnet]) -> None:
        """The saved subnets if they are still free: pods and services then keep their addresses."""
        routes, saved = list(routes), files.read_json(self._file)
        self.addresses = self._saved(saved, routes)
        self.service_range = self._saved_range(saved, [*routes, self.addresses.subnet])
        self._save(self.addresses.table())

    @property
    def interface(self) -> ipaddress.IPv4Interface:
        """The bridge's own address."""
        return ipaddress.IPv4Interface((self.gateway, self.addresses.subnet.prefixlen))

    def allocate(self, key: Key) -> str:
        """The address of a pod name; raises OutOfAddresses if other pods hold all of them."""
        address = self.addresses.hold(str(key))
        if address is None:
            raise OutOfAddresses(
                f"pods hold all {self.addresses.size} addresses of {self.addresses.subnet}: "
                "this pod starts when another one ends or is deleted"
            )
        return str(address)

    async def save_addresses(self) -> None:
        async with self._saving:
            if not self.addresses.unsaved:
                return
            self.addresses.unsaved = False
            try:
                await asyncio.to_thread(self._save, self.addresses.table())
            except OSError:
                self.addresses.unsaved = True
                raise

    def link(self, address: str) -> dict[str, str]:
        """The settings of the pod's `pause` process for this address."""
        return {
            "link": self._link(Address(address)),
            "bridge": self.bridge,
            "address": f"{address}/{self.addresses.subnet.prefixlen}",
            "gateway": self.gateway,
        }

    def detach(self, address: str) -> None:
        """Remove a pod's link now; the kernel does so only some time after the namespace ends."""
        with Netlink() as net, contextlib.suppress(OSError):
            if index := net.index(self._link(Address(address))):
                net.delete(index)

    def close(self) -> None:
        with Netlink() as net:
            for name, number in net.links().items():
                if name == self.bridge or name.startswith(self.prefix):
                    with contextlib.suppress(OSError):  # deleting one end deletes the other
                        net.delete(number)
        for table in (service_rules.table_name(self.bridge), self._users_table):
            with contextlib.suppress(OSError):  # the kernel has no packet filter
                netfilter.remove_table(table)
        self._nat.close()

    def _link(self, address: Address) -> str:
        # Linux allows 15 characters: 10 of the prefix, and 4 for an address of the subnet.
        offset = int(address) - int(self.addresses.subnet.network_address)
        return f"{self.prefix}{offset:04x}"

    def _saved(self, saved: Raw, routes: list[Subnet]) -> Addresses:
        with contextlib.suppress(ValueError, KeyError):  # nothing saved, or not readable
            subnet = Subnet(saved["subnet"])
            if not overlaps(subnet, routes):
                return Addresses(subnet, saved.get("addresses"))
        return Addresses(free_subnet(routes, self._seed))

    def _saved_range(self, saved: Raw, routes: list[Subnet]) -> Subnet:
        with contextlib.suppress(ValueError, KeyError):
            service_range = Subnet(saved["services"])
            if not overlaps(service_range, routes):
                return service_range
        return free_subnet(routes, self._seed + 1)

    def _save(self, addresses: dict[str, str]) -> None:
        body = {
            "subnet": str(self.addresses.subnet),
            "services": str(self.service_range),
            "addresses": addresses,
        }
        if files.read_json(self._file) != body:  # on a full disk nothing can be written
            files.write_atomically(self._file, json.dumps(body))
