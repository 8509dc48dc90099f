"""What a service keeps and gives up when it changes.

Pure; called by `admit.py` on every update of a service, before defaults and rules. As a real server
does: a client that changes only the type need not know which other fields went with the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_ADDRESS = ("clusterIP", "clusterIPs")
_FAMILIES = ("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
_OUTSIDE = ("NodePort", "LoadBalancer")


def complete(new: Raw, old: Raw) -> None:
    """Take over what was given to the service, and drop, in place, what its type has no use for."""
    spec, before = new.get("spec") or {}, old["spec"]
    named = spec.get("type") == "ExternalName"
    if not named and not spec.get("clusterIP") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
        spec["clusterIPs"] = spec.get("clusterIPs") or list(before.get("clusterIPs") or ())
    elif not named and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
    useless = [*_ADDRESS, *_FAMILIES] if named and before["type"] != "ExternalName" else []
    if spec.get("type") not in _OUTSIDE and before["type"] in _OUTSIDE:
        useless += ["externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"]
    for name in useless:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def check(new: Raw, old: Raw) -> Iterator[Cause]:
    """A service that has an address, or was told to have none, stays so."""
    both = ("ExternalName" not in (new["type"], old["type"])) and old.get("clusterIP")
    if both and new.get("clusterIP") != old["clusterIP"]:
        told = "may not change once set"
        yield status.bad_value("spec.clusterIPs[0]", new.get("clusterIPs"), told)
