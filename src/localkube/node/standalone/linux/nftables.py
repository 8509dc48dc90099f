"""Rules of the kernel's packet filter for the pods' bridge.

Other hosts reach neither pods nor this machine's address on the bridge, other users of the machine
reach neither pods nor services, and packets of pods leave with the machine's address (NAT). The
rules of services are in `network/services/rules.py`.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from localkube.node.standalone.linux import netfilter
from localkube.node.standalone.linux.netfilter import (
    CONNECTION_STATE,
    DESTINATION,
    DIFFERENT,
    DROP,
    IN_NAME,
    LOCAL_OUT,
    MANGLE,
    OUT_NAME,
    POST_ROUTING,
    PRE_ROUTING,
    RAW,
    SOCKET_USER,
    SOURCE,
    SOURCE_NAT,
    base_chain,
    compare,
    expression,
    in_subnet,
    link,
    reject,
    rule,
    transport,
    verdict,
)

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Iterable

    from localkube.node.standalone.linux.netfilter import Expressions

_ESTABLISHED, _RELATED = 2, 4


def write_table(subnet: ipaddress.IPv4Network, bridge: str, *, masquerade: bool = True) -> None:
    """Write the table of a bridge, which is named as it; an older one is replaced.

    Packets for the subnet that come by another link are dropped. With `masquerade`, packets from
    the subnet that leave by another link get that link's address.
    """
    chains = [base_chain(bridge, "prerouting", "filter", PRE_ROUTING, RAW)]
    rules = [rule(bridge, "prerouting", *from_outside(subnet, bridge))]
    if masquerade:
        chains.append(base_chain(bridge, "postrouting", "nat", POST_ROUTING, SOURCE_NAT))
        rules.append(rule(bridge, "postrouting", *_to_outside(subnet, bridge)))
    with netfilter.connect() as kernel:
        netfilter.apply([*netfilter.new_table(bridge), *chains, *rules], kernel)


def write_users_table(
    table: str, subnets: Iterable[ipaddress.IPv4Network], users: Iterable[int]
) -> None:
    """Write a table of its own that refuses new connections of other users to these subnets.

    What a server of any user answers to a pod is part of the pod's connection and passes, and so do
    the packets of pods, which this machine forwards and does not send. The chain is before the
    addresses of services are translated.
    """
    changes = [
        *netfilter.new_table(table),
        base_chain(table, "output", "filter", LOCAL_OUT, MANGLE),
    ]
    others = (
        netfilter.meta(SOCKET_USER),
        *(compare(DIFFERENT, struct.pack("=I", user)) for user in users),
    )
    new = netfilter.connection(CONNECTION_STATE, _ESTABLISHED | _RELATED, 0)
    tcp = socket.IPPROTO_TCP
    for subnet in subnets:
        matches = (*in_subnet(DESTINATION, subnet), *others, *new)
        changes += [
            rule(table, "output", *matches, *transport(tcp), reject(tcp)),
            rule(table, "output", *matches, reject()),
        ]
    with netfilter.connect() as kernel:
        netfilter.apply(changes, kernel)


def remove(table: str) -> None:
    """Remove the table, if it exists."""
    with netfilter.connect() as kernel:
        netfilter.apply(netfilter.without_table(table), kernel)


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


def _to_outside(subnet: ipaddress.IPv4Network, bridge: str) -> Expressions:
    """Give packets of pods the address of the link by which they leave the machine."""
    return (
        *in_subnet(SOURCE, subnet),
        *link(OUT_NAME, DIFFERENT, bridge),
        expression("masq", b""),
    )
