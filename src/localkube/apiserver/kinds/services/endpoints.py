"""Endpoints and EndpointSlice: defaults, checks, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import Causes, invalid_value, required
from localkube.apiserver.kinds import fields
from localkube.apiserver.kinds.fields import fill
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

_SIDES = ("addresses", "notReadyAddresses")


def _defaults(endpoints: Raw) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill(port, protocol="TCP")


def _check(endpoints: Raw) -> Causes:
    for path, subset in fields.each(endpoints, "", "subsets"):
        if not any(subset.get(side) for side in _SIDES):
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for side in _SIDES:
            for where, address in fields.each(subset, path, side):
                yield from _check_address(address, where)
        for where, port in fields.each(subset, path, "ports"):
            yield from _check_port(port, where, alone=len(subset["ports"]) == 1)


def _check_address(address: Raw, path: str) -> Causes:
    ip = str(address.get("ip") or "")
    yield from fields.check_address(ip, f"{path}.ip")
    if address.get("hostname"):
        yield from fields.check_name(address, path, names.check_label, "hostname")
    if fields.is_address(ip):
        yield from fields.check_reachable(ip, f"{path}.ip")
    else:
        yield invalid_value(f"{path}.ip", ip, fields.IP_RULE)


def _check_port(port: Raw, path: str, *, alone: bool) -> Causes:
    if port.get("name") or not alone:
        yield from fields.check_name(port, path, names.check_label)
    yield from fields.check_port_number(port.get("port") or 0, f"{path}.port")
    yield from fields.one_of(port, "protocol", fields.PROTOCOLS, path)


def _addresses(endpoints: Raw, now: datetime) -> str:
    addresses = [
        ":".join([cells.text(address, "ip"), *([str(cells.number(port, "port"))] if port else [])])
        for subset in cells.rows(endpoints, "subsets")
        for address in cells.rows(subset, "addresses")
        for port in cells.rows(subset, "ports") or ({},)
    ]
    return _first_three(addresses) or cells.NONE


def _first_three(items: list[str]) -> str:
    more = f" + {len(items) - 3} more..." if len(items) > 3 else ""
    return ",".join(items[:3]) + more


ENDPOINTS = Resource(
    "", "v1", "endpoints", "Endpoints", singular="endpoints", short=("ep",), create_on_update=True,
    deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    strategy=Strategy(
        defaults=_defaults,
        check=_check,
        columns=cells.NAME | {"Endpoints": _addresses} | cells.AGE,
    ),
)  # fmt: skip


# -- slices --------------------------------------------------------------------------------------


def _slice_defaults(endpoints: Raw) -> None:
    for port in endpoints.get("ports") or ():
        fill(port, protocol="TCP", name="")


def _slice_ports(endpoints: Raw, now: datetime) -> str:
    ports = [str(cells.number(p, "port")) for p in cells.rows(endpoints, "ports") if "port" in p]
    return _first_three(ports) or cells.UNSET


def _slice_addresses(endpoints: Raw, now: datetime) -> str:
    rows = cells.rows(endpoints, "endpoints")
    addresses = [address for row in rows for address in cells.words(row, "addresses")]
    return _first_three(addresses) or cells.UNSET


ENDPOINT_SLICES = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice",
    strategy=Strategy(
        defaults=_slice_defaults,
        immutable=("addressType",),
        generation="spec",
        generation_metadata="labels",
        columns=cells.NAME | {
            "AddressType": cells.text_at("addressType"),
            "Ports": _slice_ports,
            "Endpoints": _slice_addresses,
        } | cells.AGE,
    ),
)  # fmt: skip
