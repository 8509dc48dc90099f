"""What endpoints may not be.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors
from muster.local.apiserver.admission import names
from muster.local.apiserver.kinds import fields
from muster.local.apiserver.kinds.pod_containers import PORT_RANGE, PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

_SIDES = ("addresses", "notReadyAddresses")


def check(endpoints: Raw) -> Iterator[Cause]:
    """What is wrong with endpoints."""
    for i, subset in enumerate(endpoints.get("subsets") or ()):
        path = f"subsets[{i}]"
        if not any(subset.get(side) for side in _SIDES):
            yield api_errors.required(path, "must specify `addresses` or `notReadyAddresses`")
        for side in _SIDES:
            for j, address in enumerate(subset.get(side) or ()):
                yield from _address(address, f"{path}.{side}[{j}]")
        ports = subset.get("ports") or ()
        for j, port in enumerate(ports):
            yield from _port(port, f"{path}.ports[{j}]", alone=len(ports) == 1)


def _address(address: Raw, path: str) -> Iterator[Cause]:
    ip, host = str(address.get("ip") or ""), str(address.get("hostname") or "")
    if not fields.is_address(ip):
        yield from fields.check_address(ip, f"{path}.ip")
        if host:
            yield from _host(host, path)
        yield api_errors.invalid_value(f"{path}.ip", ip, fields.IP_RULE)
        return
    if host:
        yield from _host(host, path)
    yield from fields.check_reachable(ip, f"{path}.ip")


def _host(host: str, path: str) -> Iterator[Cause]:
    wrong = names.check_label(host)
    yield from (api_errors.invalid_value(f"{path}.hostname", host, told) for told in wrong)


def _port(port: Raw, path: str, *, alone: bool) -> Iterator[Cause]:
    name, number = str(port.get("name") or ""), port.get("port") or 0
    if not name and not alone:
        yield api_errors.required(f"{path}.name")
    elif name:
        wrong = names.check_label(name)
        yield from (api_errors.invalid_value(f"{path}.name", name, told) for told in wrong)
    if not 1 <= number <= 65535:
        yield api_errors.invalid_value(f"{path}.port", number, PORT_RANGE)
    if port.get("protocol") not in PROTOCOLS:
        yield api_errors.not_supported(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
