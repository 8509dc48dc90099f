"""Node ports: a service that is to be reached from outside gets free ones, and keeps them.

Called by `policy.py` when services are created and changed. Reads the store, writes nothing. Ports
are drawn at random, as the real server does, so that two clusters on one machine seldom meet.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors, objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause
    from muster.local.apiserver.store.store import Store

PORTS = range(30000, 32768)
_WITH_PORTS = ("NodePort", "LoadBalancer")


def allocate(service: Raw, store: Store) -> None:
    """Complete a service; a port that it names itself must be possible and free."""
    if not _wants(service):
        _refuse(service, _unwanted(service))
        return
    others = (entry for entry in store.scan("services/") if entry.key != _key(service))
    taken = {port for entry in others for port in _of(objects.decode(entry.value))}
    _check(service, taken)
    free = [port for port in PORTS if port not in taken.union(_of(service))]
    for row in _rows(service):
        if not row.get("nodePort") and free:
            row["nodePort"] = free.pop(random.randrange(len(free)))


def allocate_on_update(new: Raw, old: Raw, store: Store) -> None:
    """Complete a changed service: it keeps its ports while it wants any, and else gives them up.

    Ports that it did not have before it gets, as a new service does.
    """
    before = {_same(row): row.get("nodePort") for row in _rows(old)}
    for row in _rows(new):
        if not _wants(new):
            if row.get("nodePort") == before.get(_same(row)):
                row.pop("nodePort", None)
        elif not row.get("nodePort") and before.get(_same(row)):
            row["nodePort"] = before[_same(row)]
    if {*_of(new)} != {*_of(old)} or not all(row.get("nodePort") for row in _rows(new)):
        allocate(new, store)


def _key(service: Raw) -> str:
    meta = service["metadata"]
    return f"services/{meta.get('namespace', '')}/{meta.get('name', '')}"


def _wants(service: Raw) -> bool:
    return service["spec"].get("type") in _WITH_PORTS


def _rows(service: Raw) -> list[Raw]:
    return service["spec"].get("ports") or []


def _of(service: Raw) -> Iterator[int]:
    return (row["nodePort"] for row in _rows(service) if row.get("nodePort"))


def _same(row: Raw) -> tuple[Any, Any]:
    return row.get("protocol") or "TCP", row.get("port")


def _unwanted(service: Raw) -> list[Cause]:
    told = "may not be used when `type` is 'ClusterIP'"
    if service["spec"].get("type") != "ClusterIP":
        return []
    return [
        api_errors.forbidden_field(f"spec.ports[{i}].nodePort", told)
        for i, row in enumerate(_rows(service))
        if row.get("nodePort")
    ]


def _check(service: Raw, taken: set[int]) -> None:
    causes = []
    for number, row in enumerate(_rows(service)):
        port = row.get("nodePort")
        field = f"spec.ports[{number}].nodePort"
        if port and port not in PORTS:
            span = f"{PORTS.start}-{PORTS.stop - 1}"
            why = f"provided port is not in the valid range. The range of valid ports is {span}"
            causes.append(api_errors.invalid_value(field, port, why))
        elif port in taken:
            causes.append(
                api_errors.invalid_value(field, port, "provided port is already allocated")
            )
    _refuse(service, causes)


def _refuse(service: Raw, causes: list[Cause]) -> None:
    if causes:
        raise api_errors.invalid("", "Service", str(service["metadata"].get("name") or ""), causes)
