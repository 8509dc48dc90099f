"""Node ports: a service that is reached from outside gets free ports of its nodes, and keeps them.

Ports are drawn at random, as the real server does, so that two clusters on one machine seldom
collide.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from localkube.apiserver import api_errors, codec
from localkube.apiserver.api_errors import Causes, forbidden_field, invalid_value
from localkube.apiserver.kinds.fields import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.store.changes import ObjectReader

PORTS = range(30000, 32768)
_RANDOM = PORTS[86:]
"""Ports below are drawn last, so that clients may name them without meeting an allocated one."""
TYPES = ("NodePort", "LoadBalancer")


def admit_create(service: Raw, store: ObjectReader, now: datetime) -> None:
    """Allocate ports for a service; a port that it names itself must be valid and free."""
    if not _has_node_ports(service):
        _raise_if_any(service, _check_no_ports(service))
        return
    # All services are read: there is no table of ports that could disagree with them.
    others = (entry for entry in store.scan_newest("services/") if entry.key != _key(service))
    taken = {port for entry in others for port in _ports_of(codec.decode(entry.value))}
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
        if not _has_node_ports(new):
            if row.get("nodePort") == before.get(_identity(row)):
                row.pop("nodePort", None)
        elif not row.get("nodePort") and before.get(_identity(row)):
            row["nodePort"] = before[_identity(row)]
    # A scan of all services for every update would be slow; most updates change no port.
    if {*_ports_of(new)} != {*_ports_of(old)} or not all(r.get("nodePort") for r in _rows(new)):
        admit_create(new, store, now)


def _key(service: Raw) -> str:
    meta = service["metadata"]
    return f"services/{meta.get('namespace', '')}/{meta.get('name', '')}"


def _has_node_ports(service: Raw) -> bool:
    return service["spec"].get("type") in TYPES


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
                yield forbidden_field(f"{path}.nodePort", detail)


def _check_ports(service: Raw, taken: set[int]) -> Causes:
    """The causes for node ports out of range or of other services."""
    for path, row in each(service["spec"], "spec", "ports"):
        port = row.get("nodePort")
        if port and port not in PORTS:
            span = f"{PORTS.start}-{PORTS.stop - 1}"
            why = f"provided port is not in the valid range. The range of valid ports is {span}"
            yield invalid_value(f"{path}.nodePort", port, why)
        elif port in taken:
            yield invalid_value(f"{path}.nodePort", port, "provided port is already allocated")


def _raise_if_any(service: Raw, causes: Causes) -> None:
    if causes := list(causes):
        raise api_errors.invalid("", "Service", str(service["metadata"].get("name") or ""), causes)
