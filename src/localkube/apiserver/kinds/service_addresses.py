"""The addresses and node ports of services: checks, and allocation when services are written."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import TYPE_CHECKING, Any

from localkube.apiserver import api_errors, causes, codec
from localkube.apiserver.kinds import field_rules
from localkube.apiserver.kinds.field_rules import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.store.collection import ObjectReader


DEFAULT_RANGE = IPv4Network("10.96.0.0/16")
HEADLESS = "None"
_FAMILIES = ("IPv4", "IPv6")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_PATH, _POLICY_PATH = "spec.clusterIPs", "spec.ipFamilyPolicy"
_DUAL = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
_MIN_STATIC, _MAX_STATIC = 16, 256


# -- families ------------------------------------------------------------------------------------


def complete(spec: Raw, before: Raw) -> None:
    """Fill in the list of addresses and the families; `before` is the old spec of an update."""
    if spec["type"] == "ExternalName":
        return
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if not spec.get("ipFamilyPolicy"):
        default = "RequireDualStack" if _has_foreign_endpoints(spec) else "SingleStack"
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or default
    of_range = ":" not in str(spec.get("clusterIP"))
    families = spec.get("ipFamilies") or (["IPv4"] if of_range else [])
    if _has_foreign_endpoints(spec) and spec["ipFamilyPolicy"] != "SingleStack":
        families = [*families, *(f for f in _FAMILIES if f not in families)]
    spec["ipFamilies"] = families


def _has_foreign_endpoints(spec: Raw) -> bool:
    """Whether the service is headless and has no selector: its endpoints may be of any family."""
    return spec.get("clusterIP") == HEADLESS and not spec.get("selector")


def check(spec: Raw) -> Causes:
    """The causes for addresses and families that contradict each other or the cluster."""
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    # As with the real server, the causes of one step are listed only if there are none before.
    yield from (
        list(_check_list(str(spec.get("clusterIP") or ""), addresses))
        or [*_check_families(families, spec["ipFamilyPolicy"]), *_check_each(addresses)]
        or list(_check_matching(addresses, families))
        or list(_check_number(spec["ipFamilyPolicy"], addresses, families))
        or list(_check_configured(spec, families))
    )


def _check_list(first: str, addresses: list[str]) -> Causes:
    if addresses and not first:
        yield causes.invalid(_PATH, addresses, "must be empty when `clusterIP` is not specified")
    elif addresses and addresses[0] != first:
        yield causes.invalid(_PATH, addresses, "first value must match `clusterIP`")


def _check_families(families: list[str], policy: object) -> Causes:
    for i, family in enumerate(families):
        if family not in _FAMILIES:
            yield causes.not_supported(f"spec.ipFamilies[{i}]", family, _FAMILIES)
        if family in families[:i]:
            yield causes.duplicate(f"spec.ipFamilies[{i}]", family)
    if policy not in _POLICIES:
        yield causes.not_supported(_POLICY_PATH, policy, _POLICIES)


def _check_each(addresses: list[str]) -> Causes:
    if HEADLESS in addresses and len(addresses) > 1:
        yield causes.invalid(_PATH, addresses, "'None' must be the first and only value")
    for i, address in enumerate(addresses):
        if address != HEADLESS or i:
            yield from field_rules.check_address(address, f"{_PATH}[{i}]")
    if len(addresses) > len(_FAMILIES):
        yield causes.invalid(_PATH, addresses, "may only hold up to 2 values")


def _check_matching(addresses: list[str], families: list[str]) -> Causes:
    if addresses == [HEADLESS]:
        return
    found = [f"IPv{ip_address(address).version}" for address in addresses]
    if len(set(found)) < len(found):
        detail = "may specify no more than one IP for each IP family"
        yield causes.invalid(_PATH, addresses, detail)
    for i, (family, wanted) in enumerate(zip(found, families, strict=False)):
        if family != wanted:
            detail = f"expected an {wanted} value as indicated by `ipFamilies[{i}]`"
            yield causes.invalid(f"{_PATH}[{i}]", addresses[i], detail)


def _check_number(policy: str, addresses: list[str], families: list[str]) -> Causes:
    if policy == "SingleStack" and len(addresses) > 1:
        yield causes.invalid(_POLICY_PATH, policy, f"{_DUAL} cluster IPs are specified")
    if policy == "SingleStack" and len(families) > 1:
        yield causes.invalid(_POLICY_PATH, policy, f"{_DUAL} IP families are specified")
    if not families:
        yield causes.invalid(f"{_PATH}[0]", addresses, "IPv6 is not configured on this cluster")


def _check_configured(spec: Raw, families: list[str]) -> Causes:
    if _has_foreign_endpoints(spec):
        return
    if spec["ipFamilyPolicy"] == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        yield causes.invalid(_POLICY_PATH, spec["ipFamilyPolicy"], detail)
    for i, family in enumerate(families):
        if family != "IPv4":
            yield causes.invalid(f"spec.ipFamilies[{i}]", family, "not configured on this cluster")


# -- allocation ----------------------------------------------------------------------------------


def allocate(service: Raw, store: ObjectReader, service_range: IPv4Network) -> None:
    """Give a service its address; an address that it names itself must be in range and free."""
    spec = service["spec"]
    if spec["type"] == "ExternalName" or spec.get("clusterIP") == HEADLESS:
        return
    taken = {a for other in _others(service, store) for a in other["spec"].get("clusterIPs") or ()}
    if requested := spec.get("clusterIP"):
        _check_requested(service, requested, taken, service_range)
        return
    address = _free(taken, service_range)
    if address is None:
        name = service["metadata"]["name"]
        why = f'failed to allocate a serviceIP for Service "{name}": range is full'
        raise api_errors.error("InternalError", f"Internal error occurred: {why}")
    spec["clusterIP"], spec["clusterIPs"] = str(address), [str(address)]


def _others(service: Raw, store: ObjectReader) -> Iterator[Raw]:
    """All other services, including those that are being written."""
    # All are read: there is no table of addresses or ports that could disagree with them.
    meta = service["metadata"]
    own = f"services/{meta.get('namespace', '')}/{meta.get('name', '')}"
    for entry in store.scan_newest("services/"):
        if entry.key != own:
            yield codec.decode(entry.value)


def _check_requested(
    service: Raw, requested: str, taken: set[str], service_range: IPv4Network
) -> None:
    problem = "provided IP is already allocated" if requested in taken else ""
    if not is_usable(requested, service_range):
        problem = "the provided network does not match the current range"
    if problem:
        detail = f"failed to allocate IP {requested}: {problem}"
        _raise_if_any(service, [causes.invalid(_PATH, service["spec"]["clusterIPs"], detail)])


def is_usable(address: str, service_range: IPv4Network) -> bool:
    """Whether a service may have this address."""
    edges = (service_range.network_address, service_range.broadcast_address)
    return field_rules.is_address(address) and (
        ip_address(address) in service_range and ip_address(address) not in edges
    )


def _free(taken: set[str], service_range: IPv4Network) -> IPv4Address | None:
    size = service_range.num_addresses
    static = min(max(_MIN_STATIC, size // 16), _MAX_STATIC) if size > _MIN_STATIC else 1
    last = size - 1  # the broadcast address
    for first, stop in ((static, last), (1, static)):
        start = random.randrange(first, stop) if stop > first else first
        for offset in (*range(start, stop), *range(first, start)):
            address = service_range[offset]
            if str(address) not in taken:
                return address
    return None


# -- node ports ----------------------------------------------------------------------------------

PORTS = range(30000, 32768)
_RANDOM = PORTS[86:]
"""Ports below are drawn last, so that clients may name them without meeting an allocated one."""
TYPES = ("NodePort", "LoadBalancer")


def admit_create(service: Raw, store: ObjectReader, now: datetime) -> None:
    """Allocate ports for a service; a port that it names itself must be valid and free."""
    if service["spec"].get("type") not in TYPES:
        _raise_if_any(service, _check_no_ports(service))
        return
    taken = {port for other in _others(service, store) for port in _ports_of(other)}
    _raise_if_any(service, _check_ports(service, taken))
    taken |= {*_ports_of(service)}
    free = [port for port in _RANDOM if port not in taken] or [p for p in PORTS if p not in taken]
    for row in _rows(service):
        if not row.get("nodePort") and free:
            row["nodePort"] = free.pop(random.randrange(len(free)))


def admit_update(new: Raw, old: Raw, store: ObjectReader, now: datetime) -> None:
    """Keep the ports of a changed service while its type has any; allocate the missing ports."""
    before = {_identity(row): row.get("nodePort") for row in _rows(old)}
    for row in _rows(new):
        if new["spec"].get("type") not in TYPES:
            if row.get("nodePort") == before.get(_identity(row)):
                row.pop("nodePort", None)
        elif not row.get("nodePort") and before.get(_identity(row)):
            row["nodePort"] = before[_identity(row)]
    # A scan of all services for every update would be slow; most updates change no port.
    if {*_ports_of(new)} != {*_ports_of(old)} or not all(r.get("nodePort") for r in _rows(new)):
        admit_create(new, store, now)


def _rows(service: Raw) -> list[Raw]:
    return service["spec"].get("ports") or []


def _ports_of(service: Raw) -> Iterator[int]:
    return (row["nodePort"] for row in _rows(service) if row.get("nodePort"))


def _identity(row: Raw) -> tuple[Any, Any]:
    return row.get("protocol") or "TCP", row.get("port")


def _check_no_ports(service: Raw) -> Causes:
    """The causes for node ports of a service that is not reached from outside."""
    if service["spec"].get("type") == "ClusterIP":
        for path, row in each(service["spec"], "spec", "ports"):
            if row.get("nodePort"):
                detail = "may not be used when `type` is 'ClusterIP'"
                yield causes.forbidden(f"{path}.nodePort", detail)


def _check_ports(service: Raw, taken: set[int]) -> Causes:
    """The causes for node ports out of range or of other services."""
    for path, row in each(service["spec"], "spec", "ports"):
        port = row.get("nodePort")
        if port and port not in PORTS:
            span = f"{PORTS.start}-{PORTS.stop - 1}"
            why = f"provided port is not in the valid range. The range of valid ports is {span}"
            yield causes.invalid(f"{path}.nodePort", port, why)
        elif port in taken:
            yield causes.invalid(f"{path}.nodePort", port, "provided port is already allocated")


def _raise_if_any(service: Raw, found: Causes) -> None:
    name = str(service["metadata"].get("name") or "")
    api_errors.raise_if_invalid("", "Service", name, found)
