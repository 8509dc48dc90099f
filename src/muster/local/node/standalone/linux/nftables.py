"""One rule of the kernel's packet filter: packets of pods leave with the machine's address (NAT).

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
_POST_ROUTING, _SOURCE_NAT = 4, 100
_NETWORK_HEADER, _SOURCE_OFFSET, _OUT_NAME = 1, 12, 7
_REGISTER, _EQUAL, _DIFFERENT = 1, 0, 1
_NAME_SIZE = 16


def masquerade(table: str, subnet: ipaddress.IPv4Network, bridge: str) -> None:
    """Packets from the subnet that leave by another link than the bridge get that link's address.

    The table has only this rule; an older table of the same name is replaced.
    """
    expressions = (
        _payload(_SOURCE_OFFSET, 4),
        _bitwise(subnet.netmask.packed),
        _compare(_EQUAL, subnet.network_address.packed),
        _meta(_OUT_NAME),
        _compare(_DIFFERENT, bridge.encode().ljust(_NAME_SIZE, b"\0")),
        _expression("masq", b""),
    )
    # The numbers of attributes are those of <linux/netfilter/nf_tables.h>.
    hook = _nested(4, _number(1, _POST_ROUTING) + _number(2, _SOURCE_NAT))
    chain = text(1, table) + text(3, "postrouting") + hook + text(7, "nat")
    rule = text(1, table) + text(2, "postrouting") + _nested(4, b"".join(expressions))
    new = [
        (_NEW_TABLE, CREATE, text(1, table)),
        (_NEW_CHAIN, CREATE, chain),
        (_NEW_RULE, CREATE, rule),
    ]
    # Creating the table first makes sure that deleting it succeeds.
    _batch([new[0], (_DEL_TABLE, 0, text(1, table)), *new])


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
