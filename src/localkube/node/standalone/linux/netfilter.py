"""The kernel's packet filter: the rules of the pods' bridge, and how to write such rules.

Other hosts reach neither pods nor this machine's address on the bridge, other users of the machine
reach neither pods nor services, and packets of pods leave with the machine's address (NAT). The
rules of services are in `network/service_rules.py`.

Messages are written by hand because a machine may have no `nft` program. Changes come in a batch
that the kernel applies as a whole or not at all. A rule is a list of expressions: they load a field
into a register, compare it, and end with a verdict. Numbers are in network byte order; those of
attributes are in <linux/netfilter/nf_tables.h>.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from localkube.node.standalone.linux.netlink import (
    ACK,
    APPEND,
    CREATE,
    DONE,
    DUMP,
    ERROR,
    REQUEST,
    attribute,
    connect,
    message,
    messages,
    raise_error,
    read_attributes,
    text,
)

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Iterable

PROTOCOL = 12
"""Of netlink sockets for the packet filter."""
PRE_ROUTING, LOCAL_IN, FORWARD, LOCAL_OUT, POST_ROUTING = 0, 1, 2, 3, 4
RAW, MANGLE, DESTINATION_NAT, FILTER, SOURCE_NAT = -300, -150, -100, 0, 100
SOURCE, DESTINATION = 12, 16
"""Offsets of the two addresses in the header of a packet."""
IN_NAME, OUT_NAME, SOCKET_USER, TRANSPORT = 6, 7, 10, 16
"""Keys of `meta`: the links by which a packet comes and leaves, the user whose socket sends it, and
its transport protocol."""
CONNECTION_STATE, CONNECTION_STATUS = 0, 2
"""Keys of `ct`."""
EQUAL, DIFFERENT = 0, 1
NETWORK_HEADER, TRANSPORT_HEADER = 1, 2
DROP, _JUMP = 0, -3
Change = tuple[int, int, bytes]
"""The number, the flags and the body of a message."""
Expressions = tuple[bytes, ...]
_BEGIN, _END = 0x10, 0x11
_NEW_TABLE, _DEL_TABLE, _NEW_CHAIN, _GET_CHAIN, _NEW_RULE = 0, 2, 3, 4, 6
_CHAIN_TABLE, _CHAIN_HOOK, _CHAIN_POLICY, _HOOK_NUMBER = 1, 4, 5, 1
_SUBSYSTEM = 10
_NESTED = 0x8000
_VERDICT, _REGISTER = 0, 1
_NAME_SIZE = 16
_ICMP, _TCP_RESET, _PORT_UNREACHABLE = 0, 1, 3
_MAX_BATCH = 150_000
"""Bytes of one batch; the kernel's buffer for a message has at least 200,000."""
_ESTABLISHED, _RELATED = 2, 4


def write_bridge_table(
    subnet: ipaddress.IPv4Network, bridge: str, *, masquerade: bool = True
) -> None:
    """Write the table of a bridge, which is named as it; an older one is replaced.

    Packets for the subnet that come by another link are dropped. With `masquerade`, packets from
    the subnet that leave by another link get that link's address.
    """
    chains = [base_chain(bridge, "prerouting", "filter", PRE_ROUTING, RAW)]
    rules = [rule(bridge, "prerouting", *from_outside(subnet, bridge))]
    if masquerade:
        chains.append(base_chain(bridge, "postrouting", "nat", POST_ROUTING, SOURCE_NAT))
        to_outside = (*in_subnet(SOURCE, subnet), *link(OUT_NAME, DIFFERENT, bridge))
        rules.append(rule(bridge, "postrouting", *to_outside, expression("masq", b"")))
    with connect(PROTOCOL) as kernel:
        apply([*new_table(bridge), *chains, *rules], kernel)


def write_users_table(
    table: str, subnets: Iterable[ipaddress.IPv4Network], users: Iterable[int]
) -> None:
    """Write a separate table that refuses new connections of other users to these subnets.

    What a server of any user answers to a pod is part of the pod's connection and passes, and so do
    the packets of pods, which this machine forwards and does not send. The chain is before the
    addresses of services are translated.
    """
    changes = [
        *new_table(table),
        base_chain(table, "output", "filter", LOCAL_OUT, MANGLE),
    ]
    others = (
        meta(SOCKET_USER),
        *(compare(DIFFERENT, struct.pack("=I", user)) for user in users),
    )
    new = connection(CONNECTION_STATE, _ESTABLISHED | _RELATED, 0)
    tcp = socket.IPPROTO_TCP
    for subnet in subnets:
        matches = (*in_subnet(DESTINATION, subnet), *others, *new)
        changes += [
            rule(table, "output", *matches, *transport(tcp), reject(tcp)),
            rule(table, "output", *matches, reject()),
        ]
    with connect(PROTOCOL) as kernel:
        apply(changes, kernel)


def remove_table(table: str) -> None:
    """Remove the table, if it exists."""
    with connect(PROTOCOL) as kernel:
        apply(without_table(table), kernel)


def from_outside(subnet: ipaddress.IPv4Network, bridge: str) -> Expressions:
    """Drop what other hosts send to pods, or to this machine's address on the bridge.

    No packet that pods wait for is dropped. An answer to a pod comes to the machine's own address,
    and this rule is before NAT writes the pod's address into it. Traffic between this machine and
    pods comes by the bridge, and its traffic with itself by the loopback link.
    """
    return (
        *in_subnet(DESTINATION, subnet),
        *link(IN_NAME, DIFFERENT, bridge),
        *link(IN_NAME, DIFFERENT, "lo"),
        verdict(DROP),
    )


def apply(changes: list[Change], kernel: socket.socket) -> None:
    """Apply all of the changes, or none and raise OSError. Long lists take several batches."""
    batch: list[Change] = []
    size = 0
    for change in changes:
        if size + len(change[2]) > _MAX_BATCH:
            _apply_batch(batch, kernel)
            batch, size = [], 0
        batch.append(change)
        size += len(change[2])
    _apply_batch(batch, kernel)


def _apply_batch(changes: list[Change], kernel: socket.socket) -> None:
    delimiter = struct.pack(">BBH", socket.AF_UNSPEC, 0, _SUBSYSTEM)
    # Every message of the subsystem begins with family, version 0 and resource 0.
    family = struct.pack(">BBH", socket.AF_INET, 0, 0)
    parts = [message(_BEGIN, REQUEST, 0, delimiter)]
    last = len(changes)
    for sequence, (kind, flags, body) in enumerate(changes, 1):
        # Errors come in any case. An answer for each message would fill the socket's buffer.
        wanted = ACK if sequence == last else 0
        full = _SUBSYSTEM << 8 | kind
        parts.append(message(full, REQUEST | wanted | flags, sequence, family + body))
    parts.append(message(_END, REQUEST, last + 1, delimiter))
    kernel.send(b"".join(parts))
    while True:
        for kind, sequence, answer in messages(kernel.recv(1 << 16)):
            if kind == ERROR:
                raise_error(answer, "nftables")
                if sequence == last:
                    return


def forwarding_is_dropped(kernel: socket.socket) -> str:
    """The table of another program that drops forwarded packets by default; empty if none does."""
    family = struct.pack(">BBH", socket.AF_INET, 0, 0)
    kernel.send(message(_SUBSYSTEM << 8 | _GET_CHAIN, REQUEST | DUMP, 0, family))
    table = ""
    while True:
        for kind, _, body in messages(kernel.recv(1 << 16)):
            if kind in (DONE, ERROR):
                return table
            chain = read_attributes(body[len(family) :])
            hook = read_attributes(chain.get(_CHAIN_HOOK, b"")).get(_HOOK_NUMBER)
            policy = chain.get(_CHAIN_POLICY)
            if hook == struct.pack(">I", FORWARD) and policy == struct.pack(">I", DROP):
                table = chain[_CHAIN_TABLE].rstrip(b"\0").decode()


# -- tables, chains, rules -----------------------------------------------------------------------
def new_table(name: str) -> list[Change]:
    """An empty table; an older one of this name is replaced."""
    table = (_NEW_TABLE, CREATE, text(1, name))
    # Creating the table first makes sure that deleting it succeeds.
    return [table, (_DEL_TABLE, 0, text(1, name)), table]


def without_table(name: str) -> list[Change]:
    """Remove the table, if it exists."""
    return new_table(name)[:2]


def base_chain(table: str, name: str, kind: str, hook: int, priority: int) -> Change:
    """A chain that packets enter at a hook."""
    place = number(1, hook) + attribute(2, struct.pack(">i", priority))
    return _NEW_CHAIN, CREATE, text(1, table) + text(3, name) + nested(4, place) + text(7, kind)


def chain(table: str, name: str) -> Change:
    """A chain that packets enter by a jump."""
    return _NEW_CHAIN, CREATE, text(1, table) + text(3, name)


def rule(table: str, chain_name: str, *expressions: bytes) -> Change:
    """A rule at the end of a chain."""
    body = text(1, table) + text(2, chain_name) + nested(4, b"".join(expressions))
    return _NEW_RULE, CREATE | APPEND, body


# -- expressions ---------------------------------------------------------------------------------
def in_subnet(offset: int, subnet: ipaddress.IPv4Network) -> Expressions:
    """An address of the packet is in the subnet."""
    mask, address = subnet.netmask.packed, subnet.network_address.packed
    return payload(NETWORK_HEADER, offset, 4), bitwise(mask), compare(EQUAL, address)


def link(key: int, operator: int, name: str) -> Expressions:
    return meta(key), compare(operator, name.encode().ljust(_NAME_SIZE, b"\0"))


def payload(header: int, offset: int, length: int) -> bytes:
    """Load a field of the packet."""
    field = number(2, header) + number(3, offset) + number(4, length)
    return expression("payload", number(1, _REGISTER) + field)


def bitwise(mask: bytes) -> bytes:
    registers = number(1, _REGISTER) + number(2, _REGISTER) + number(3, len(mask))
    return expression("bitwise", registers + data(4, mask) + data(5, bytes(len(mask))))


def meta(key: int) -> bytes:
    return expression("meta", number(1, _REGISTER) + number(2, key))


def connection(key: int, mask: int, value: int) -> Expressions:
    """These bits of a field of the packet's connection have this value."""
    load_field = expression("ct", number(1, _REGISTER) + number(2, key))
    return load_field, bitwise(struct.pack("=I", mask)), compare(EQUAL, struct.pack("=I", value))


def transport(protocol: int) -> Expressions:
    return meta(TRANSPORT), compare(EQUAL, bytes([protocol]))


def reject(protocol: int = 0) -> bytes:
    """Refuse the packet: a TCP connection is reset, others get "port unreachable"."""
    kind = _TCP_RESET if protocol == socket.IPPROTO_TCP else _ICMP
    return expression("reject", number(1, kind) + attribute(2, bytes([_PORT_UNREACHABLE])))


def compare(operator: int, value: bytes) -> bytes:
    return expression("cmp", number(1, _REGISTER) + number(2, operator) + data(3, value))


def load(register: int, value: bytes) -> bytes:
    """Load a constant."""
    return expression("immediate", number(1, register) + data(2, value))


def verdict(code: int) -> bytes:
    return expression("immediate", number(1, _VERDICT) + nested(2, nested(2, number(1, code))))


def jump(chain_name: str) -> bytes:
    target = attribute(1, struct.pack(">i", _JUMP)) + text(2, chain_name)
    return expression("immediate", number(1, _VERDICT) + nested(2, nested(2, target)))


def expression(name: str, body: bytes) -> bytes:
    return nested(1, text(1, name) + nested(2, body))


def nested(kind: int, value: bytes) -> bytes:
    return attribute(kind | _NESTED, value)


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack(">I", value))


def data(kind: int, value: bytes) -> bytes:
    return nested(kind, attribute(1, value))
