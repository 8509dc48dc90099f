"""One rule of the kernel's packet filter: packets of pods leave with the machine's address (NAT).

The messages are written here, as in `netlink`, because a machine may have no `nft` program. Changes
come in a batch that the kernel applies as a whole or not at all. A rule is a list of expressions:
they load a field into a register, compare it, and end with a verdict. Numbers are in network byte
order.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ipaddress

_BEGIN, _END = 0x10, 0x11
_NEW_TABLE, _DEL_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 2, 3, 6
_NETFILTER, _SUBSYSTEM = 12, 10
_REQUEST, _ACK, _CREATE = 0x1, 0x4, 0x400
_NESTED = 0x8000
_ERROR = 2
_HEADER = struct.Struct("=IHHII")
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
    hook = _nested(4, _number(1, _POST_ROUTING) + _number(2, _SOURCE_NAT))
    chain = _text(1, table) + _text(3, "postrouting") + hook + _text(7, "nat")
    rule = _text(1, table) + _text(2, "postrouting") + _nested(4, b"".join(expressions))
    new = [
        (_NEW_TABLE, _CREATE, _text(1, table)),
        (_NEW_CHAIN, _CREATE, chain),
        (_NEW_RULE, _CREATE, rule),
    ]
    # Creating the table first makes sure that deleting it succeeds.
    _batch([new[0], (_DEL_TABLE, 0, _text(1, table)), *new])


def remove(table: str) -> None:
    """Remove the table, if it exists."""
    _batch([(_NEW_TABLE, _CREATE, _text(1, table)), (_DEL_TABLE, 0, _text(1, table))])


def _batch(changes: list[tuple[int, int, bytes]]) -> None:
    """Apply all of the changes, or none and raise OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as kernel:
        kernel.bind((0, 0))
        delimiter = struct.pack(">BBH", socket.AF_UNSPEC, 0, _SUBSYSTEM)
        parts = [_message(_BEGIN, _REQUEST, 0, delimiter)]
        for number, (kind, flags, body) in enumerate(changes, 1):
            family = struct.pack(">BBH", socket.AF_INET, 0, 0)
            full = _SUBSYSTEM << 8 | kind
            parts.append(_message(full, _REQUEST | _ACK | flags, number, family + body))
        parts.append(_message(_END, _REQUEST, len(changes) + 1, delimiter))
        kernel.send(b"".join(parts))
        acknowledged = 0
        while acknowledged < len(changes):
            acknowledged += _acknowledgements(kernel.recv(1 << 16))


def _acknowledgements(data: bytes) -> int:
    """The number of acknowledged changes in these answers; raises the first error."""
    count = 0
    while data:
        length, kind, _, _, _ = _HEADER.unpack_from(data)
        if kind == _ERROR:
            number = -struct.unpack_from("=i", data, _HEADER.size)[0]
            if number:
                raise OSError(number, os.strerror(number), "nftables")
            count += 1
        data = data[(length + 3) & ~3 :]
    return count


def _message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + b"\0" * (-length % 4)


def _nested(kind: int, value: bytes) -> bytes:
    return _attribute(kind | _NESTED, value)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack(">I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _data(kind: int, value: bytes) -> bytes:
    return _nested(kind, _attribute(1, value))


def _expression(name: str, body: bytes) -> bytes:
    return _nested(1, _text(1, name) + _nested(2, body))


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
