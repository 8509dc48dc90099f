"""Links, addresses and routes: the few rtnetlink messages that a pod's network needs.

They are written by hand because importing a netlink library takes ten times as long as starting a
container. A message is a header, a fixed struct and attributes (length, type, value, padded to 4
bytes); the kernel answers with an error number, 0 for success.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEWLINK, _DELLINK, _GETLINK = 16, 17, 18
_NEWADDR = 20
_NEWROUTE, _GETROUTE = 24, 26
ERROR, DONE = 2, 3
REQUEST, ACK, _REPLACE, _EXCL, CREATE, APPEND = 0x1, 0x4, 0x100, 0x200, 0x400, 0x800
DUMP = 0x300
_IFF_UP = 1

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER = 1, 3, 10
_IFLA_LINKINFO, _IFLA_NET_NS_PID = 18, 19
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_SOURCE = 1, 4, 5, 7

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")
_ATTRIBUTE = struct.Struct("=HH")


def connect(protocol: int) -> socket.socket:
    """A netlink socket to the kernel, for the network namespace of this process."""
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    kernel.bind((0, 0))  # port 0: the kernel chooses an address for us
    return kernel


class Netlink:
    """A socket to the kernel, for the network namespace in which it was opened."""

    def __init__(self, opened: socket.socket | None = None) -> None:
        self._socket = opened or connect(socket.NETLINK_ROUTE)
        self._sequence = 0

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def links(self) -> dict[str, int]:
        """The numbers of all links by name."""
        links = {}
        for body in self._dump(_GETLINK, _LINK.pack(0, 0, 0, 0, 0)):
            _, _, index, _, _ = _LINK.unpack_from(body)
            name = read_attributes(body[_LINK.size :]).get(_IFLA_IFNAME, b"").rstrip(b"\0").decode()
            links[name] = index
        return links

    def index(self, name: str) -> int:
        """The number of a link; 0 if there is no such link."""
        return self.links().get(name, 0)

    def networks(self) -> dict[ipaddress.IPv4Network, int]:
        """The IPv4 networks of all routes except default routes, with their links."""
        networks = {}
        for body in self._dump(_GETROUTE, _ROUTE.pack(socket.AF_INET, *[0] * 8)):
            length = body[1]
            attributes = read_attributes(body[_ROUTE.size :])
            if length and _RTA_DST in attributes:
                network = ipaddress.IPv4Network((attributes[_RTA_DST], length), strict=False)
                networks[network] = int.from_bytes(attributes.get(_RTA_OIF, b""), "little")
        return networks

    def add_bridge(self, name: str) -> None:
        # Without its own address, a bridge takes the lowest one of its ports. Then a new port
        # could change it, and hosts that remember the former address would send to nobody.
        own = b"\x02" + os.urandom(5)  # 02: locally administered, of one host
        address = attribute(_IFLA_ADDRESS, own)
        self._create_link(text(_IFLA_IFNAME, name) + address + _kind("bridge"))

    def add_veth(self, name: str, master: int, peer: str, peer_pid: int) -> None:
        """A pair: `name`, up, in the bridge `master`, and `peer` in the namespace of a process."""
        # One message makes both ends in their places: a crash cannot leave half of a pair.
        peer_link = (
            _LINK.pack(0, 0, 0, 0, 0)
            + text(_IFLA_IFNAME, peer)
            + _number(_IFLA_NET_NS_PID, peer_pid)
        )
        self._create_link(
            text(_IFLA_IFNAME, name)
            + _number(_IFLA_MASTER, master)
            + _kind("veth", attribute(_VETH_PEER, peer_link))
        )

    def set_up(self, index: int) -> None:
        self._request(_NEWLINK, _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP))

    def delete(self, index: int) -> None:
        self._request(_DELLINK, _LINK.pack(0, 0, index, 0, 0))

    def add_address(self, index: int, interface: ipaddress.IPv4Interface) -> None:
        body = _ADDRESS.pack(socket.AF_INET, interface.network.prefixlen, 0, 0, index)
        packed = interface.ip.packed
        self._request(
            _NEWADDR,
            body + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed),
            CREATE | _EXCL,
        )

    def add_default_route(self, gateway: ipaddress.IPv4Address) -> None:
        # Table main (254), protocol boot (3), scope universe (0), type unicast (1).
        body = _ROUTE.pack(socket.AF_INET, 0, 0, 0, 254, 3, 0, 1, 0)
        self._request(_NEWROUTE, body + attribute(_RTA_GATEWAY, gateway.packed), CREATE | _EXCL)

    def add_local_route(
        self, index: int, network: ipaddress.IPv4Network, source: ipaddress.IPv4Address
    ) -> None:
        """Make every address of a network an address of this machine, for as long as a link exists.
        Connections to them have the source address."""
        # Table local (255), protocol boot (3), scope host (254), type local (2).
        body = _ROUTE.pack(socket.AF_INET, network.prefixlen, 0, 0, 255, 3, 254, 2, 0)
        body += attribute(_RTA_DST, network.network_address.packed)
        body += _number(_RTA_OIF, index) + attribute(_RTA_SOURCE, source.packed)
        self._request(_NEWROUTE, body, CREATE | _REPLACE)

    def _create_link(self, attributes: bytes) -> None:
        self._request(_NEWLINK, _LINK.pack(0, 0, 0, _IFF_UP, _IFF_UP) + attributes, CREATE | _EXCL)

    def _request(self, kind: int, body: bytes, flags: int = 0) -> None:
        self._send(kind, body, ACK | flags)
        for type_, answer in self._answers():
            if type_ == ERROR:
                raise_error(answer, f"rtnetlink message {kind}")
                return

    def _dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        self._send(kind, body, DUMP)
        for type_, answer in self._answers():
            if type_ == DONE:
                return
            yield answer

    def _send(self, kind: int, body: bytes, flags: int) -> None:
        self._sequence += 1
        self._socket.send(message(kind, REQUEST | flags, self._sequence, body))

    def _answers(self) -> Iterator[tuple[int, bytes]]:
        while True:
            for kind, sequence, body in messages(self._socket.recv(1 << 18)):
                if sequence == self._sequence:  # else an answer to an earlier request
                    yield kind, body


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body


def messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, sequence number and body of every message in the kernel's answer."""
    while data:
        length, kind, _, sequence, _ = _HEADER.unpack_from(data)
        yield kind, sequence, data[_HEADER.size : length]
        data = data[_padded(length) :]


def raise_error(body: bytes, subject: str) -> None:
    """Raise the error of an ERROR message; the number 0 acknowledges the request."""
    number = -struct.unpack_from("=i", body)[0]
    if number:
        raise OSError(number, os.strerror(number), subject)


def _padded(length: int) -> int:
    return (length + 3) & ~3


def attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + b"\0" * (_padded(length) - length)


def text(kind: int, value: str) -> bytes:
    """An attribute with a string."""
    return attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def _kind(name: str, data: bytes = b"") -> bytes:
    inner = text(_INFO_KIND, name) + (attribute(_INFO_DATA, data) if data else b"")
    return attribute(_IFLA_LINKINFO, inner)


def read_attributes(data: bytes) -> dict[int, bytes]:
    attributes = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            break
        # The two high bits are flags: nested, and network byte order.
        attributes[kind & 0x3FFF] = data[_ATTRIBUTE.size : length]
        data = data[_padded(length) :]
    return attributes
