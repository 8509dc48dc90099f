"""Virtual addresses of services as rules of the kernel: destination NAT.

A new connection to a service's address and port gets the address and the port of one of the
service's endpoints; the kernel remembers the choice for the connection. Connections of pods enter
at the bridge, those of this machine at its own output. Whatever is left for the service range, no
service or no endpoint, is refused.

Pods share one bridge, so an endpoint would answer a pod directly, and the pod would not know the
sender. So connections from pods get the bridge's address as their source, and answers come back
through this machine.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from localkube.node.standalone.linux import netfilter
from localkube.node.standalone.linux.netfilter import (
    DESTINATION,
    EQUAL,
    IN_NAME,
    NETWORK_HEADER,
    OUT_NAME,
    SOURCE,
    TRANSPORT_HEADER,
    base_chain,
    compare,
    expression,
    in_subnet,
    jump,
    link,
    load,
    number,
    reject,
    rule,
    transport,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from localkube.node.network.pod_addresses import Subnet
    from localkube.node.network.service_addresses import ServicePort
    from localkube.node.standalone.linux.netfilter import Change, Expressions

_CHAIN = "services"
_TCP = socket.IPPROTO_TCP
_PROTOCOLS = {"TCP": _TCP, "UDP": socket.IPPROTO_UDP}
_PORT_OFFSET = 2
_ADDRESS_REGISTER, _PORT_REGISTER = 1, 2
_RANDOM, _JENKINS, _SEED = 1, 0, 1
_DESTINATION_NAT, _IPV4 = 1, 2
_WAS_REDIRECTED = 1 << 5


def table_name(bridge: str) -> str:
    return f"{bridge}-services"


def table(
    bridge: str, pods: Subnet, services: Subnet, ports: Iterable[ServicePort]
) -> list[Change]:
    """The whole table for these ports of services; an older table is replaced."""
    name = table_name(bridge)
    to_service = in_subnet(DESTINATION, services)
    from_pods = (*in_subnet(SOURCE, pods), *link(OUT_NAME, EQUAL, bridge))
    redirected = netfilter.connection(netfilter.CONNECTION_STATUS, _WAS_REDIRECTED, _WAS_REDIRECTED)
    hooks = netfilter
    return [
        *netfilter.new_table(name),
        base_chain(name, "raw", "filter", hooks.PRE_ROUTING, hooks.RAW),
        base_chain(name, "prerouting", "nat", hooks.PRE_ROUTING, hooks.DESTINATION_NAT),
        base_chain(name, "output", "nat", hooks.LOCAL_OUT, hooks.DESTINATION_NAT),
        base_chain(name, "postrouting", "nat", hooks.POST_ROUTING, hooks.SOURCE_NAT),
        base_chain(name, "input", "filter", hooks.LOCAL_IN, hooks.FILTER),
        netfilter.chain(name, _CHAIN),
        rule(name, "raw", *netfilter.from_outside(services, bridge)),
        rule(name, "prerouting", *link(IN_NAME, EQUAL, bridge), *to_service, jump(_CHAIN)),
        rule(name, "output", *to_service, jump(_CHAIN)),
        rule(name, "postrouting", *from_pods, *redirected, expression("masq", b"")),
        *(rule(name, _CHAIN, *choice) for port in ports for choice in _choices(port)),
        rule(name, "input", *to_service, *transport(_TCP), reject(_TCP)),
        rule(name, "input", *to_service, reject()),
    ]


def _choices(port: ServicePort) -> Iterator[Expressions]:
    """One rule per endpoint: the first that matches a new connection takes it."""
    if port.protocol not in _PROTOCOLS:
        return
    address = socket.inet_aton(port.address)
    matches = (
        netfilter.payload(NETWORK_HEADER, DESTINATION, 4),
        compare(EQUAL, address),
        *transport(_PROTOCOLS[port.protocol]),
        netfilter.payload(TRANSPORT_HEADER, _PORT_OFFSET, 2),
        compare(EQUAL, struct.pack(">H", port.port)),
    )
    nat = number(1, _DESTINATION_NAT) + number(2, _IPV4)
    nat += number(3, _ADDRESS_REGISTER) + number(5, _PORT_REGISTER)
    count = len(port.endpoints)
    for i, endpoint in enumerate(port.endpoints):
        chosen = _same_for_client(i, count) if port.by_client else _one_of(count - i)
        yield (
            *matches,
            *chosen,
            load(_ADDRESS_REGISTER, socket.inet_aton(endpoint.address)),
            load(_PORT_REGISTER, struct.pack(">H", endpoint.port)),
            expression("nat", nat),
        )


def _one_of(count: int) -> Expressions:
    """True for one in `count` connections."""
    draw = number(1, 1) + number(2, count) + number(3, _RANDOM) + number(4, 0)
    return expression("numgen", draw), compare(EQUAL, bytes(4))


def _same_for_client(index: int, count: int) -> Expressions:
    """True if the client's address belongs to the endpoint of this index."""
    fields = (1, 1), (2, 1), (3, 4), (4, count), (5, _SEED), (6, 0), (7, _JENKINS)
    hashed = expression("hash", b"".join(number(kind, value) for kind, value in fields))
    client = netfilter.payload(NETWORK_HEADER, SOURCE, 4)
    return client, hashed, compare(EQUAL, struct.pack("=I", index))
