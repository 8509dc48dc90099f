"""What a service may not be.

Pure; called by `kinds.py`.

What a service keeps and gives up when it changes.

Pure; called by `admit.py` on every update of a service, before defaults and rules. As a real server
does: a client that changes only the type need not know which other fields went with the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.admission import names
from muster.local.apiserver.kinds import fields
from muster.local.apiserver.kinds.pod_containers import PORT_RANGE, PROTOCOLS, check_port, one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


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
        yield api_errors.required("spec.ports")
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
            yield api_errors.duplicate(path, _shown(port))
        taken.add(what)
    yield from _from_outside(spec)
    yield from _memory(spec)


def _elsewhere(spec: Raw) -> Iterator[Cause]:
    """A service that is only another name."""
    name = str(spec.get("externalName") or "").rstrip(".")
    if not name:
        yield api_errors.required("spec.externalName")
    else:
        wrong = names.check_subdomain(name)
        yield from (api_errors.invalid_value("spec.externalName", name, told) for told in wrong)
    if spec.get("clusterIP") or spec.get("clusterIPs"):
        told = "may not be set for ExternalName services"
        yield api_errors.forbidden_field("spec.clusterIPs", told)


def _own_addresses(spec: Raw) -> Iterator[Cause]:
    first, all_of = str(spec.get("clusterIP") or ""), spec.get("clusterIPs") or []
    path = "spec.clusterIPs"
    if all_of and not first:
        yield api_errors.invalid_value(
            path, all_of, "must be empty when `clusterIP` is not specified"
        )
        return
    if first and all_of and all_of[0] != first:
        yield api_errors.invalid_value(path, all_of, "first value must match `clusterIP`")
        return
    if "None" in all_of and len(all_of) > 1:
        yield api_errors.invalid_value(path, all_of, "'None' must be the first and only value")
    for i, address in enumerate(all_of):
        if address != "None" or i:
            yield from fields.check_address(address, f"{path}[{i}]")


def _from_outside(spec: Raw) -> Iterator[Cause]:
    """What only services that are reached from outside have."""
    for i, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{i}]"
        wrong = list(fields.check_address(address, path))
        yield from wrong or fields.check_reachable(address, path)
    kind, policy = spec.get("type"), spec.get("externalTrafficPolicy")
    if kind != "LoadBalancer" and spec.get("loadBalancerSourceRanges"):
        yield api_errors.forbidden_field("spec.LoadBalancerSourceRanges", _BALANCED)
    if policy and kind not in _OUTSIDE and not spec.get("externalIPs"):
        told = "may only be set for externally-accessible services"
        yield api_errors.invalid_value("spec.externalTrafficPolicy", policy, told)
    port = spec.get("healthCheckNodePort")
    if port and (kind, policy) != ("LoadBalancer", "Local"):
        yield api_errors.invalid_value("spec.healthCheckNodePort", port, _HEALTH)


def _memory(spec: Raw) -> Iterator[Cause]:
    """How long a client goes to the same pod."""
    path = "sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = objects.at(spec, path)
    if seconds is not None and not 0 < seconds <= _LONGEST:
        told = f"must be greater than 0 and less than {_LONGEST}"
        yield api_errors.invalid_value(f"spec.{path}", seconds, told)


def _port(port: Raw, path: str, seen: set[str], *, alone: bool) -> Iterator[Cause]:
    name, number = str(port.get("name") or ""), port.get("port", 0)
    if not name and not alone:
        yield api_errors.required(f"{path}.name")
    elif name:
        yield from (
            api_errors.invalid_value(f"{path}.name", name, told) for told in names.check_label(name)
        )
        if name in seen:
            yield api_errors.duplicate(f"{path}.name", name)
        seen.add(name)
    if not 1 <= number <= 65535:
        yield api_errors.invalid_value(f"{path}.port", number, PORT_RANGE)
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


_ADDRESS = ("clusterIP", "clusterIPs")
_FAMILIES = ("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
_EXTERNAL = ("NodePort", "LoadBalancer")


def prepare_update(new: Raw, old: Raw) -> None:
    """Take over what was given to the service, and drop, in place, what its type has no use for."""
    spec, before = new.get("spec") or {}, old["spec"]
    named = spec.get("type") == "ExternalName"
    if not named and not spec.get("clusterIP") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
        spec["clusterIPs"] = spec.get("clusterIPs") or list(before.get("clusterIPs") or ())
    elif not named and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
    useless = [*_ADDRESS, *_FAMILIES] if named and before["type"] != "ExternalName" else []
    if spec.get("type") not in _EXTERNAL and before["type"] in _EXTERNAL:
        useless += ["externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"]
    for name in useless:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def check_update(new: Raw, old: Raw) -> Iterator[Cause]:
    """A service that has an address, or was told to have none, stays so."""
    both = ("ExternalName" not in (new["type"], old["type"])) and old.get("clusterIP")
    if both and new.get("clusterIP") != old["clusterIP"]:
        told = "may not change once set"
        yield api_errors.invalid_value("spec.clusterIPs[0]", new.get("clusterIPs"), told)
