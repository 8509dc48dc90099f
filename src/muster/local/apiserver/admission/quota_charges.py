"""What an object counts for in a quota, and which quotas it counts in.

Pure; used by `quotas.py`. Names are those a ResourceQuota's `hard` uses.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from muster.api.quantity import Amount, parse_quantity, whole_amount
from muster.errors import InvalidQuantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster.api.meta import Raw

Charge = dict[str, Amount]

_BY_PLURAL = frozenset({"configmaps", "persistentvolumeclaims", "resourcequotas", "secrets"})
_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
_EXPLICIT = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)
_STORAGE = ".storageclass.storage.k8s.io/"
_ONE = whole_amount(1)


def charge(collection: str, obj: Raw) -> Charge:
    """Everything the object takes."""
    taken = {f"count/{collection}": _ONE}
    if collection in _BY_PLURAL:
        taken[collection] = _ONE
    match collection:
        case "pods":
            if _lives(obj):
                taken |= _pod(obj["spec"])
        case "services":
            taken |= _service(obj.get("spec") or {})
        case "persistentvolumeclaims":
            taken |= _claim(obj.get("spec") or {})
        case _:
            pass
    return taken


def added(new: Charge, old: Charge) -> Charge:
    """What a change takes more."""
    more = {name: amount - old.get(name, Amount()) for name, amount in new.items()}
    return {name: amount for name, amount in more.items() if amount.nano > 0}


def _lives(pod: Raw) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _pod(spec: Raw) -> Charge:
    taken = {"pods": _ONE}
    for name, amount in _needs(spec, "requests").items():
        if name in _PLAIN or name.startswith("hugepages-"):
            taken[name] = amount
        taken[f"requests.{name}"] = amount
    for name, amount in _needs(spec, "limits").items():
        if name in _PLAIN:
            taken[f"limits.{name}"] = amount
    return taken


def _needs(spec: Raw, which: str) -> Charge:
    """A pod's requests or limits: all that run together, or the largest start."""
    always = _sum(_amounts(c, which) for c in spec.get("containers") or ())
    beside: Charge = {}
    largest: Charge = {}
    for container in spec.get("initContainers") or ():
        own = _amounts(container, which)
        if container.get("restartPolicy") == "Always":
            beside = _sum((beside, own))
            largest = _largest(largest, beside)
        else:
            largest = _largest(largest, _sum((own, beside)))
    needs = _largest(_sum((always, beside)), largest)
    needs |= _amounts(spec, which)  # what is said for the pod as a whole stands
    overhead = _parsed(spec.get("overhead"))
    return _sum((needs, {k: v for k, v in overhead.items() if which == "requests" or k in needs}))


def _amounts(holder: Raw, which: str) -> Charge:
    return _parsed((holder.get("resources") or {}).get(which))


def _parsed(amounts: Mapping[str, Any] | None) -> Charge:
    """What can be read of it: an amount that is none is refused elsewhere, and counts nothing."""
    found: Charge = {}
    for name, value in (amounts or {}).items():
        with contextlib.suppress(InvalidQuantity):
            found[name] = parse_quantity(value)
    return found


def _sum(many: Iterable[Charge]) -> Charge:
    total: Charge = {}
    for one in many:
        for name, amount in one.items():
            total[name] = total.get(name, Amount()) + amount
    return total


def _largest(a: Charge, b: Charge) -> Charge:
    return {name: max(a.get(name, Amount()), b.get(name, Amount())) for name in {**a, **b}}


def _service(spec: Raw) -> Charge:
    taken = {"services": _ONE}
    balanced = spec.get("type") == "LoadBalancer"
    if balanced:
        taken["services.loadbalancers"] = _ONE
    if spec.get("type") == "NodePort" or (
        balanced and spec.get("allocateLoadBalancerNodePorts") is not False
    ):
        taken["services.nodeports"] = whole_amount(len(spec.get("ports") or ()))
    return taken


def _claim(spec: Raw) -> Charge:
    storage = _amounts(spec, "requests").get("storage", Amount())
    taken = {"requests.storage": storage}
    if spec.get("storageClassName"):
        kind = f"{spec['storageClassName']}{_STORAGE}"
        taken |= {f"{kind}requests.storage": storage, f"{kind}persistentvolumeclaims": _ONE}
    return taken


def unspecified(hard: Iterable[str], spec: Raw) -> str:
    """What each container of a pod must say when a quota limits it, and does not; empty if all do.

    A quota on cpu or memory makes them obligatory, for the sum would mean nothing otherwise.
    """
    if (spec.get("resources") or {}).get("requests") or (spec.get("resources") or {}).get("limits"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        said = {*(resources.get("requests") or ())}
        said |= {f"requests.{name}" for name in resources.get("requests") or ()}
        said |= {f"limits.{name}" for name in resources.get("limits") or ()}
        for name in (_EXPLICIT & set(hard)) - said:
            missing.setdefault(name, set()).add(container["name"])
    told = (f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {'; '.join(told)}" if missing else ""


# -- scopes --------------------------------------------------------------------------------------


def in_scope(quota_spec: Raw, collection: str, obj: Raw) -> bool:
    """Whether a quota is about this object at all."""
    terms = [{"scopeName": s, "operator": "Exists"} for s in quota_spec.get("scopes") or ()]
    terms += (quota_spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if not terms:
        return True
    return collection == "pods" and all(_matches(term, obj["spec"]) for term in terms)


def _matches(term: Raw, spec: Raw) -> bool:
    match term.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return _best_effort(spec)
        case "NotBestEffort":
            return not _best_effort(spec)
        case "PriorityClass":
            return _of_class(term, spec.get("priorityClassName") or "")
        case _:
            return False


def _of_class(term: Raw, name: str) -> bool:
    values = term.get("values") or ()
    match term.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _best_effort(spec: Raw) -> bool:
    said = {**_needs(spec, "requests"), **_needs(spec, "limits")}
    return not any(said.get(name, Amount()).nano for name in ("cpu", "memory"))
