"""Two rules of the kernel's packet filter for the pods' bridge.

Other hosts reach neither pods nor this machine's address on the bridge, and packets of pods leave
with the machine's address (NAT).

The messages are written by hand because a machine may have no `nft` program. Changes come in a
batch that the kernel applies as a whole or not at all. A rule is a list of expressions: they load a
field into a register, compare it, and end with a verdict. Numbers are in network byte order.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from muster.local.node.standalone.linux.netlink import (
    ACK,
    CREATE,
    ERROR,
    REQUEST,
    attribute,
    message,
    messages,
    raise_error,
    text,
)

if TYPE_CHECKING:
    import ipaddress

_BEGIN, _END = 0x10, 0x11
_NEW_TABLE, _DEL_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 2, 3, 6
_NETFILTER, _SUBSYSTEM = 12, 10
_NESTED = 0x8000
_PRE_ROUTING, _RAW = 0, -300
_POST_ROUTING, _SOURCE_NAT = 4, 100
_NETWORK_HEADER, _SOURCE_OFFSET, _DESTINATION_OFFSET = 1, 12, 16
_IN_NAME, _OUT_NAME = 6, 7
_DROP = 0
_REGISTER, _EQUAL, _DIFFERENT = 1, 0, 1
_NAME_SIZE = 16


def write_table(subnet: ipaddress.IPv4Network, bridge: str, *, masquerade: bool = True) -> None:
    """Write the table of a bridge, which is named as it; an older one is replaced.

    Packets for the subnet that come by another link are dropped. With `masquerade`, packets from
    the subnet that leave by another link get that link's address.
    """
    name = text(1, bridge)
    chains = [_chain(bridge, "prerouting", "filter", _PRE_ROUTING, _RAW)]
    rules = [_rule(bridge, "prerouting", _from_outside(subnet, bridge))]
    if masquerade:
        chains.append(_chain(bridge, "postrouting", "nat", _POST_ROUTING, _SOURCE_NAT))
        rules.append(_rule(bridge, "postrouting", _to_outside(subnet, bridge)))
    new = [(_NEW_CHAIN, CREATE, chain) for chain in chains]
    new += [(_NEW_RULE, CREATE, rule) for rule in rules]
    table = (_NEW_TABLE, CREATE, name)
    # Creating the table first makes sure that deleting it succeeds.
    _batch([table, (_DEL_TABLE, 0, name), table, *new])


def _from_outside(subnet: ipaddress.IPv4Network, bridge: str) -> tuple[bytes, ...]:
    """Drop what other hosts send to pods, or to this machine's address on the bridge.

    No packet that pods wait for is dropped. An answer to a pod comes to the machine's own address,
    and this rule is before NAT writes the pod's address into it. Traffic between this machine and
    pods comes by the bridge, and its traffic with itself by the loopback link.
    """
    return (
        *_in_subnet(_DESTINATION_OFFSET, subnet),
        *_other_link(_IN_NAME, bridge),
        *_other_link(_IN_NAME, "lo"),
        _expression("immediate", _number(1, 0) + _nested(2, _nested(2, _number(1, _DROP)))),
    )


def _to_outside(subnet: ipaddress.IPv4Network, bridge: str) -> tuple[bytes, ...]:
    """Give packets of pods the address of the link by which they leave the machine."""
    return (
        *_in_subnet(_SOURCE_OFFSET, subnet),
        *_other_link(_OUT_NAME, bridge),
        _expression("masq", b""),
    )


def _in_subnet(offset: int, subnet: ipaddress.IPv4Network) -> tuple[bytes, ...]:
    mask, address = subnet.netmask.packed, subnet.network_address.packed
    return _payload(offset, 4), _bitwise(mask), _compare(_EQUAL, address)


def _other_link(key: int, link: str) -> tuple[bytes, ...]:
    return _meta(key), _compare(_DIFFERENT, link.encode().ljust(_NAME_SIZE, b"\0"))


# The numbers of attributes are those of <linux/netfilter/nf_tables.h>.


def _chain(table: str, name: str, kind: str, hook: int, priority: int) -> bytes:
    place = _number(1, hook) + attribute(2, struct.pack(">i", priority))
    return text(1, table) + text(3, name) + _nested(4, place) + text(7, kind)


def _rule(table: str, chain: str, expressions: tuple[bytes, ...]) -> bytes:
    return text(1, table) + text(2, chain) + _nested(4, b"".join(expressions))


def remove(table: str) -> None:
    """Remove the table, if it exists."""
    _batch([(_NEW_TABLE, CREATE, text(1, table)), (_DEL_TABLE, 0, text(1, table))])


def _batch(changes: list[tuple[int, int, bytes]]) -> None:
    """Apply all of the changes, or none and raise OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as kernel:
        kernel.bind((0, 0))
        delimiter = struct.pack(">BBH", socket.AF_UNSPEC, 0, _SUBSYSTEM)
        parts = [message(_BEGIN, REQUEST, 0, delimiter)]
        for number, (kind, flags, body) in enumerate(changes, 1):
            # Every message of the subsystem begins with family, version 0 and resource 0.
            family = struct.pack(">BBH", socket.AF_INET, 0, 0)
            full = _SUBSYSTEM << 8 | kind
            parts.append(message(full, REQUEST | ACK | flags, number, family + body))
        parts.append(message(_END, REQUEST, len(changes) + 1, delimiter))
        kernel.send(b"".join(parts))
        acknowledged = 0
        while acknowledged < len(changes):
            for kind, _, answer in messages(kernel.recv(1 << 16)):
                if kind == ERROR:
                    raise_error(answer, "nftables")
                    acknowledged += 1


def _nested(kind: int, value: bytes) -> bytes:
    return attribute(kind | _NESTED, value)


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack(">I", value))


def _data(kind: int, value: bytes) -> bytes:
    return _nested(kind, attribute(1, value))


def _expression(name: str, body: bytes) -> bytes:
    return _nested(1, text(1, name) + _nested(2, body))


def _payload(offset: int, length: int) -> bytes:
    field = _number(2, _NETWORK_HEADER) + _number(3, offset) + _number(4, length)
    return _expression("payload", _number(1, _REGISTER) + field)


def _bitwise(mask: bytes) -> bytes:
    registers = _number(1, _REGISTER) + _number(2, _REGISTER) + _number(3, len(mask))
    return _expression("bitwise", registers + _data(4, mask) + _data(5, bytes(len(mask))))


def _meta(key: int) -> bytes:
    return _expression("meta", _number(1, _REGISTER) + _number(2, key))


def _compare(operator: int, value: bytes) -> bytes:
    return _expression("cmp", _number(1, _REGISTER) + _number(2, operator) + _data(3, value))
