"""What a service may not be.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import objects, status
from muster.local.apiserver.admission import names
from muster.local.apiserver.admission.validation import addresses
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
_OUTSIDE = ("NodePort", "LoadBalancer")
_LONGEST = 86400
_BALANCED = "may only be used when `type` is 'LoadBalancer'"
_HEALTH = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"


def check(service: Raw) -> Iterator[Cause]:
    """What is wrong with a service."""
    spec = service["spec"]
    ports, kind = spec.get("ports") or [], spec.get("type")
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield status.required("spec.ports")
    yield from _elsewhere(spec) if kind == "ExternalName" else _own_addresses(spec)
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
    yield from _from_outside(spec)
    yield from _memory(spec)


def _elsewhere(spec: Raw) -> Iterator[Cause]:
    """A service that is only another name."""
    name = str(spec.get("externalName") or "").rstrip(".")
    if not name:
        yield status.required("spec.externalName")
    else:
        wrong = names.check_subdomain(name)
        yield from (status.bad_value("spec.externalName", name, told) for told in wrong)
    if spec.get("clusterIP") or spec.get("clusterIPs"):
        told = "may not be set for ExternalName services"
        yield status.forbidden_field("spec.clusterIPs", told)


def _own_addresses(spec: Raw) -> Iterator[Cause]:
    first, all_of = str(spec.get("clusterIP") or ""), spec.get("clusterIPs") or []
    path = "spec.clusterIPs"
    if all_of and not first:
        yield status.bad_value(path, all_of, "must be empty when `clusterIP` is not specified")
        return
    if first and all_of and all_of[0] != first:
        yield status.bad_value(path, all_of, "first value must match `clusterIP`")
        return
    if "None" in all_of and len(all_of) > 1:
        yield status.bad_value(path, all_of, "'None' must be the first and only value")
    for i, address in enumerate(all_of):
        if address != "None" or i:
            yield from addresses.check_address(address, f"{path}[{i}]")


def _from_outside(spec: Raw) -> Iterator[Cause]:
    """What only services that are reached from outside have."""
    for i, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{i}]"
        wrong = list(addresses.check_address(address, path))
        yield from wrong or addresses.check_reachable(address, path)
    kind, policy = spec.get("type"), spec.get("externalTrafficPolicy")
    if kind != "LoadBalancer" and spec.get("loadBalancerSourceRanges"):
        yield status.forbidden_field("spec.LoadBalancerSourceRanges", _BALANCED)
    if policy and kind not in _OUTSIDE and not spec.get("externalIPs"):
        told = "may only be set for externally-accessible services"
        yield status.bad_value("spec.externalTrafficPolicy", policy, told)
    port = spec.get("healthCheckNodePort")
    if port and (kind, policy) != ("LoadBalancer", "Local"):
        yield status.bad_value("spec.healthCheckNodePort", port, _HEALTH)


def _memory(spec: Raw) -> Iterator[Cause]:
    """How long a client goes to the same pod."""
    path = "sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = objects.at(spec, path)
    if seconds is not None and not 0 < seconds <= _LONGEST:
        told = f"must be greater than 0 and less than {_LONGEST}"
        yield status.bad_value(f"spec.{path}", seconds, told)


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
