"""What a service may not be.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import status
from muster.local.apiserver.admission import names
from muster.local.apiserver.admission.validation.containers import (
    PORT_RANGE,
    PROTOCOLS,
    check_port,
    one_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_WORDS = {
    "sessionAffinity": ("ClientIP", "None"),
    "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    "internalTrafficPolicy": ("Cluster", "Local"),
}


def check(service: Raw) -> Iterator[Cause]:
    """What is wrong with a service."""
    spec = service["spec"]
    ports, kind = spec.get("ports") or [], spec.get("type")
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield status.required("spec.ports")
    if kind == "ExternalName" and not spec.get("externalName"):
        yield status.required("spec.externalName")
    yield from names.check_labels(spec.get("selector") or {}, "spec.selector")
    for field, allowed in _WORDS.items():
        yield from one_of(spec, field, allowed, "spec")
    seen: set[str] = set()
    taken: set[tuple[object, object]] = set()
    for i, port in enumerate(ports):
        path = f"spec.ports[{i}]"
        yield from _port(port, path, seen, alone=len(ports) == 1)
        what = (port.get("port"), port.get("protocol"))
        if what in taken:
            yield status.duplicate(path, _shown(port))
        taken.add(what)


def _port(port: Raw, path: str, seen: set[str], *, alone: bool) -> Iterator[Cause]:
    name, number = str(port.get("name") or ""), port.get("port", 0)
    if not name and not alone:
        yield status.required(f"{path}.name")
    elif name:
        yield from (
            status.bad_value(f"{path}.name", name, told) for told in names.check_label(name)
        )
        if name in seen:
            yield status.duplicate(f"{path}.name", name)
        seen.add(name)
    if not 1 <= number <= 65535:
        yield status.bad_value(f"{path}.port", number, PORT_RANGE)
    yield from one_of(port, "protocol", PROTOCOLS, path)
    if port.get("targetPort"):
        yield from check_port(port["targetPort"], f"{path}.targetPort")


def _shown(port: Raw) -> Raw:
    """A port as the server keeps it while it looks for others like it."""
    return {
        "Name": "",
        "Protocol": port.get("protocol"),
        "AppProtocol": None,
        "Port": port.get("port"),
        "TargetPort": 0,
        "NodePort": 0,
    }
