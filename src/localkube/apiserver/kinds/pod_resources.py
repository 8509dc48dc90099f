"""Requests and limits of pods: defaults, checks, sums, QoS class, and use of a quota.

A pod needs the sum of its containers or, if that is more, the request of a single init container
next to the sidecars started before it. Init containers run one after the other and before the main
containers, so their requests are never added up. Requests of the pod as a whole replace that sum.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from kubekit.objects.quantity import Amount, InvalidQuantity, parse_quantity, whole_amount
from localkube.apiserver import causes
from localkube.apiserver.admission import names
from localkube.apiserver.kinds.field_rules import NOT_NEGATIVE, ensure_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes

Charge = dict[str, Amount]

ONE = whole_amount(1)
_WHOLE = ONE.nano
_OF_PODS = ("cpu", "memory")
_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset(
    {
        "pods", "services", "services.nodeports", "services.loadbalancers",
        "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims",
    }
)  # fmt: skip
_OF_QUOTAS = (
    _COUNTED
    | {prefix + name for prefix in ("", "requests.", "limits.") for name in _OF_CONTAINERS}
    | {"storage", "requests.storage"}
)
_EXPLICIT = {prefix + name for prefix in ("", "requests.", "limits.") for name in _OF_PODS}


# -- defaults ------------------------------------------------------------------------------------


def complete_requests(spec: Raw) -> None:
    """A limit without a request is also the request, of a container and of the whole pod."""
    for container in containers_of(spec):
        resources = container.get("resources") or {}
        for name, amount in (resources.get("limits") or {}).items():
            ensure_map(resources, "requests").setdefault(name, amount)
    resources = spec.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return
    # Of a whole pod with limits, first the containers' requests count, then its own limits.
    requests = ensure_map(resources, "requests")
    for name, total in container_sum(spec, "requests").items():
        if name in _OF_PODS:
            requests.setdefault(name, str(total))
    for name, value in limits.items():
        if name in _OF_PODS or name.startswith("hugepages-"):
            requests.setdefault(name, value)


# -- sums ----------------------------------------------------------------------------------------


def containers_of(spec: Raw) -> list[Raw]:
    """All containers of a pod but the ephemeral ones."""
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def container_sum(spec: Raw, which: str) -> Charge:
    """Requests or limits of all containers, as the module's docstring adds them up."""
    running = _sum(amounts_of(c, which) for c in spec.get("containers") or ())
    sidecars: Charge = {}
    largest: Charge = {}
    for container in spec.get("initContainers") or ():
        own = amounts_of(container, which)
        if container.get("restartPolicy") == "Always":  # it runs on next to all that start later
            sidecars = _sum((sidecars, own))
            largest = _largest(largest, sidecars)
        else:
            largest = _largest(largest, _sum((own, sidecars)))
    return _largest(_sum((running, sidecars)), largest)


def pod_sum(spec: Raw, which: str) -> Charge:
    """Requests or limits of a whole pod."""
    total = container_sum(spec, which) | amounts_of(spec, which)
    # Overhead adds to every request, but makes no limit where there was none.
    overhead = _parsed(spec.get("overhead"))
    return _sum((total, {k: v for k, v in overhead.items() if which == "requests" or k in total}))


def amounts_of(holder: Raw, which: str) -> Charge:
    """The requests or limits of a container, a pod's spec or a claim's spec."""
    return _parsed((holder.get("resources") or {}).get(which))


def _parsed(amounts: Mapping[str, Any] | None) -> Charge:
    """Amounts that can be read; validation reports the others, and they count nothing."""
    parsed: Charge = {}
    for name, value in (amounts or {}).items():
        with contextlib.suppress(InvalidQuantity):
            parsed[name] = parse_quantity(value)
    return parsed


def _sum(charges: Iterable[Charge]) -> Charge:
    total: Charge = {}
    for charge in charges:
        for name, amount in charge.items():
            total[name] = total.get(name, Amount()) + amount
    return total


def _largest(a: Charge, b: Charge) -> Charge:
    return {name: max(a.get(name, Amount()), b.get(name, Amount())) for name in {**a, **b}}


def qos_class(spec: Raw) -> str:
    """Guaranteed, Burstable or BestEffort, as eviction orders them."""
    whole: Raw = spec.get("resources") or {}
    holders = [c.get("resources") or {} for c in containers_of(spec)]
    if whole.get("requests") or whole.get("limits"):
        holders = [whole]
    pairs = [
        [
            {name: v for name, v in (holder.get(side) or {}).items() if name in _OF_PODS}
            for side in ("requests", "limits")
        ]
        for holder in holders
    ]
    if not any(requests or limits for requests, limits in pairs):
        return "BestEffort"
    if all(len(limits) == 2 and requests == limits for requests, limits in pairs):
        return "Guaranteed"
    return "Burstable"


# -- quota ---------------------------------------------------------------------------------------


def charge(pod: Raw) -> Charge:
    """The amounts that a pod uses of a quota: none once it has ended."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    used = {"pods": ONE}
    for name, amount in pod_sum(pod["spec"], "requests").items():
        if name in _OF_CONTAINERS or name.startswith("hugepages-"):
            used[name] = amount
        used[f"requests.{name}"] = amount
    for name, amount in pod_sum(pod["spec"], "limits").items():
        if name in _OF_CONTAINERS:
            used[f"limits.{name}"] = amount
    return used


def unspecified(hard: Iterable[str], pod: Raw) -> str:
    """Which containers lack a request or limit that a quota makes obligatory; empty if none does.

    A quota on cpu or memory needs a number from every container, or its sum would mean nothing.
    """
    spec = pod["spec"]
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in containers_of(spec):
        resources = container.get("resources") or {}
        specified = {*(resources.get("requests") or ())}
        specified |= {f"requests.{name}" for name in resources.get("requests") or ()}
        specified |= {f"limits.{name}" for name in resources.get("limits") or ()}
        for name in (_EXPLICIT & set(hard)) - specified:
            missing.setdefault(name, set()).add(container["name"])
    listed = (f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {'; '.join(listed)}" if missing else ""


def is_best_effort(spec: Raw) -> bool:
    """Whether a pod requests neither cpu nor memory."""
    amounts = {**pod_sum(spec, "requests"), **pod_sum(spec, "limits")}
    return not any(amounts.get(name, Amount()).nano for name in _OF_PODS)


# -- checks --------------------------------------------------------------------------------------


def check_container_resources(resources: Raw, path: str) -> Causes:
    """The causes for invalid requests and limits of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in limits.items():
        yield from _check_of_container(name, value, f"{path}.limits[{name}]")
    for name, value in requests.items():
        yield from _check_of_container(name, value, f"{path}.requests[{name}]")
        yield from _check_request(name, value, limits, path, exact=not overcommits(name))
    if any(name not in limits and not overcommits(name) for name in requests):
        yield causes.required(
            f"{path}.limits", "Limit must be set for non overcommitable resources"
        )


def check_pod_resources(resources: Raw, path: str) -> Causes:
    """The causes for invalid requests and limits of a whole pod."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            where = f"{path}.{side}[{name}]"
            if name not in _OF_PODS and not name.startswith("hugepages-"):
                yield causes.not_supported(where, name, ("cpu", "hugepages-", "memory"))
            yield from check_amount(name, value, where)
    for name, value in requests.items():
        yield from _check_request(name, value, limits, path, exact=False)


def _check_request(name: str, value: Any, limits: Raw, path: str, *, exact: bool) -> Causes:
    """The cause for a request that does not go with its limit."""
    request, limit = parse_quantity(value), parse_quantity(limits.get(name, value))
    if request.nano > limit.nano or (exact and request.nano != limit.nano):
        rule = "equal" if exact else "less than or equal"
        detail = f"must be {rule} to {name} limit of {limit}"
        yield causes.invalid(f"{path}.requests", str(request), detail)


def _check_of_container(name: str, value: object, path: str) -> Causes:
    known = is_container_resource(name)
    yield from check_resource_name(name, path, "containers", known=known)
    yield from check_amount(name, value, path)


def is_container_resource(name: str) -> bool:
    """Whether a container can name this resource without a domain."""
    return name in _OF_CONTAINERS or name.startswith("hugepages-")


def is_quota_resource(name: str) -> bool:
    """Whether a quota can name this resource without a domain."""
    return name in _OF_QUOTAS or name.removeprefix("requests.").startswith("hugepages-")


def check_resource_name(name: str, path: str, owner: str, *, known: bool) -> Causes:
    """The causes for a resource that `owner` cannot have."""
    yield from check_standard_name(name, path, known=known)
    if not known and "/" not in name:
        yield causes.invalid(path, name, f"must be a standard resource for {owner}")


def check_standard_name(name: str, path: str, *, known: bool = False) -> Causes:
    """The causes for a name that is not a resource; `known` if the caller knows it as one."""
    problems = names.check_key(name)
    yield from names.invalid_values(path, name, problems)
    if not problems and not known and "/" not in name and not is_quota_resource(name):
        yield causes.invalid(path, name, "must be a standard resource type or fully qualified")


def is_negative(value: object) -> bool:
    return value is not None and parse_quantity(value).nano < 0


def check_amount(name: str, value: object, path: str) -> Causes:
    """The causes for an amount that a resource cannot have."""
    amount = parse_quantity(value)
    if amount.nano < 0:
        yield causes.invalid(path, str(amount), NOT_NEGATIVE)
    if amount.nano % _WHOLE and (name in _COUNTED or not overcommits(name)):
        yield causes.invalid(path, str(amount), "must be an integer")


def overcommits(name: str) -> bool:
    """Whether a resource may be promised more than once: cpu and memory, not devices."""
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith("hugepages-")
