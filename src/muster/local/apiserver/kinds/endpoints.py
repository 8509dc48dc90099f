"""Endpoints and EndpointSlice: defaults, checks, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors
from muster.local.apiserver.admission import names
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


def _check(endpoints: Raw) -> api_errors.Causes:
    for i, subset in enumerate(endpoints.get("subsets") or ()):
        path = f"subsets[{i}]"
        if not any(subset.get(side) for side in _SIDES):
            yield api_errors.required(path, "must specify `addresses` or `notReadyAddresses`")
        for side in _SIDES:
            for j, address in enumerate(subset.get(side) or ()):
                yield from _check_address(address, f"{path}.{side}[{j}]")
        ports = subset.get("ports") or ()
        for j, port in enumerate(ports):
            yield from _check_port(port, f"{path}.ports[{j}]", alone=len(ports) == 1)


def _check_address(address: Raw, path: str) -> api_errors.Causes:
    ip, host = str(address.get("ip") or ""), str(address.get("hostname") or "")
    problems = names.check_label(host) if host else []
    yield from fields.check_address(ip, f"{path}.ip")
    yield from names.invalid_values(f"{path}.hostname", host, problems)
    if fields.is_address(ip):
        yield from fields.check_reachable(ip, f"{path}.ip")
    else:
        yield api_errors.invalid_value(f"{path}.ip", ip, fields.IP_RULE)


def _check_port(port: Raw, path: str, *, alone: bool) -> api_errors.Causes:
    name = str(port.get("name") or "")
    if not name and not alone:
        yield api_errors.required(f"{path}.name")
    elif name:
        yield from names.invalid_values(f"{path}.name", name, names.check_label(name))
    yield from check_port_number(port.get("port") or 0, f"{path}.port")
    if port.get("protocol") not in PROTOCOLS:
        yield api_errors.not_supported(f"{path}.protocol", port.get("protocol"), PROTOCOLS)


def _cells(endpoints: Raw, now: datetime) -> list[Any]:
    addresses = [
        ":".join([cells.text(address, "ip"), *([str(cells.number(port, "port"))] if port else [])])
        for subset in cells.rows(endpoints, "subsets")
        for address in cells.rows(subset, "addresses")
        for port in cells.rows(subset, "ports") or ({},)
    ]
    shown = _first_three(addresses) or cells.NONE
    return [cells.name_of(endpoints), shown, cells.age_of(endpoints, now)]


def _first_three(items: list[str]) -> str:
    more = f" + {len(items) - 3} more..." if len(items) > 3 else ""
    return ",".join(items[:3]) + more


ENDPOINTS = Resource(
    "", "v1", "endpoints", "Endpoints", singular="endpoints", short=("ep",), create_on_update=True,
    deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    strategy=Strategy(
        defaults=_defaults, check=_check, columns=("Name", "Endpoints", "Age"), cells=_cells
    ),
)  # fmt: skip


# -- slices --------------------------------------------------------------------------------------


def _slice_defaults(endpoints: Raw) -> None:
    for port in maps_in(endpoints.get("ports")):
        fill(port, protocol="TCP", name="")


def _slice_cells(endpoints: Raw, now: datetime) -> list[Any]:
    ports = [str(cells.number(p, "port")) for p in cells.rows(endpoints, "ports") if "port" in p]
    rows = cells.rows(endpoints, "endpoints")
    addresses = [address for row in rows for address in cells.words(row, "addresses")]
    return [
        cells.name_of(endpoints),
        cells.text(endpoints, "addressType"),
        _first_three(ports) or cells.UNSET,
        _first_three(addresses) or cells.UNSET,
        cells.age_of(endpoints, now),
    ]


ENDPOINT_SLICES = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice",
    strategy=Strategy(
        defaults=_slice_defaults,
        immutable=("addressType",),
        generation="spec",
        generation_metadata="labels",
        columns=("Name", "AddressType", "Ports", "Endpoints", "Age"),
        cells=_slice_cells,
    ),
)  # fmt: skip
