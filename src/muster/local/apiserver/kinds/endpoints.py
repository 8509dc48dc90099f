"""Endpoints and EndpointSlice: defaults, checks, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver.admission import names
from muster.local.apiserver.api_errors import Causes, invalid_value, not_supported, required
from muster.local.apiserver.kinds import fields
from muster.local.apiserver.kinds.fields import PROTOCOLS, check_port_number, fill, maps_in
from muster.local.apiserver.resource import Resource, Strategy
from muster.local.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

_SIDES = ("addresses", "notReadyAddresses")


def _defaults(endpoints: Raw) -> None:
    for subset in maps_in(endpoints.get("subsets")):
        for port in maps_in(subset.get("ports")):
            fill(port, protocol="TCP")


def _check(endpoints: Raw) -> Causes:
    for i, subset in enumerate(endpoints.get("subsets") or ()):
        path = f"subsets[{i}]"
        if not any(subset.get(side) for side in _SIDES):
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for side in _SIDES:
            for j, address in enumerate(subset.get(side) or ()):
                yield from _check_address(address, f"{path}.{side}[{j}]")
        ports = subset.get("ports") or ()
        for j, port in enumerate(ports):
            yield from _check_port(port, f"{path}.ports[{j}]", alone=len(ports) == 1)


def _check_address(address: Raw, path: str) -> Causes:
    ip, host = str(address.get("ip") or ""), str(address.get("hostname") or "")
    problems = names.check_label(host) if host else []
    yield from fields.check_address(ip, f"{path}.ip")
    yield from names.invalid_values(f"{path}.hostname", host, problems)
    if fields.is_address(ip):
        yield from fields.check_reachable(ip, f"{path}.ip")
    else:
        yield invalid_value(f"{path}.ip", ip, fields.IP_RULE)


def _check_port(port: Raw, path: str, *, alone: bool) -> Causes:
    name = str(port.get("name") or "")
    if not name and not alone:
        yield required(f"{path}.name")
    elif name:
        yield from names.invalid_values(f"{path}.name", name, names.check_label(name))
    yield from check_port_number(port.get("port") or 0, f"{path}.port")
    if port.get("protocol") not in PROTOCOLS:
        yield not_supported(f"{path}.protocol", port.get("protocol"), PROTOCOLS)


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
    for port in maps_in(endpoints.get("ports")):
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
