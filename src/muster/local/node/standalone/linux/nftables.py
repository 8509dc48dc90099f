"""Two rules of the kernel's packet filter for the pods' bridge.

Other hosts reach neither pods nor this machine's address on the bridge, and packets of pods leave
with the machine's address (NAT). The rules of services are in `network/services/rules.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.node.standalone.linux import netfilter
from muster.local.node.standalone.linux.netfilter import (
    DESTINATION,
    DIFFERENT,
    DROP,
    IN_NAME,
    OUT_NAME,
    POST_ROUTING,
    PRE_ROUTING,
    RAW,
    SOURCE,
    SOURCE_NAT,
    base_chain,
    expression,
    in_subnet,
    link,
    rule,
    verdict,
)

if TYPE_CHECKING:
    import ipaddress

    from muster.local.node.standalone.linux.netfilter import Expressions


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
