"""ResourceQuota and LimitRange: checks, a quota's scopes, a range's defaults and bounds, columns.

`admission.quota` counts the use of quotas and rejects objects that exceed them. A limit range gives
defaults to containers, and says which objects are outside of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kubekit.objects.quantity import parse_quantity
from localkube.apiserver import causes, rules
from localkube.apiserver.admission import names
from localkube.apiserver.kinds.field_rules import ensure_map, fill
from localkube.apiserver.kinds.pod_resources import (
    ONE,
    amounts_of,
    check_amount,
    check_resource_name,
    check_standard_name,
    containers_of,
    is_best_effort,
    is_container_resource,
    is_quota_resource,
    overcommits,
    pod_sum,
)
from localkube.apiserver.resource import STATUS, Resource
from localkube.apiserver.views.cells import AGE, CREATED_AT, NAME, Cell, fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from kubekit.objects.quantity import Amount
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.kinds.pod_resources import Charge


# -- ResourceQuota -------------------------------------------------------------------------------

_PODS = frozenset({"pods"})
_COMPUTE = _PODS | {p + r for p in ("", "requests.", "limits.") for r in ("cpu", "memory")}
_SCOPES = {
    "Terminating": _COMPUTE,
    "NotTerminating": _COMPUTE,
    "BestEffort": _PODS,
    "NotBestEffort": _COMPUTE,
    "PriorityClass": _COMPUTE,
    "CrossNamespacePodAffinity": _COMPUTE,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The resources that each scope can be combined with."""
_EXIST_ONLY = frozenset(_SCOPES) - {"PriorityClass", "VolumeAttributesClass"}
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating,"
    " ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort,"
    " ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def scope_terms(spec: Raw) -> list[Raw]:
    """The terms that an object must match to count in a quota with this spec."""
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return [*terms, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def matches_scope(term: Raw, pod: Raw) -> bool:
    """Whether a pod is in the scope of a term."""
    spec = pod["spec"]
    scope = str(term.get("scopeName") or "")
    if scope in ("Terminating", "NotTerminating"):
        return (spec.get("activeDeadlineSeconds") is not None) == (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return is_best_effort(spec) == (scope == "BestEffort")
    if scope != "PriorityClass":
        return False
    name, values = spec.get("priorityClassName") or "", term.get("values") or ()
    matches = {"In": name in values, "NotIn": name not in values, "DoesNotExist": not name}
    return matches.get(term.get("operator") or "", bool(name))


def _check_quota(quota: Raw) -> Causes:
    spec: Raw = quota.get("spec") or {}
    hard = spec.get("hard") or {}
    for name, value in hard.items():
        path = f"spec.hard[{name}]"
        yield from check_resource_name(name, path, "quota", known=is_quota_resource(name))
        yield from check_amount(name, value, path)
    scopes = spec.get("scopes") or []
    for scope in scopes:
        yield from _check_scope(scope, hard, "spec.scopes", scopes)
    yield from _check_opposites(scopes, "spec.scopes")
    terms = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    path = "spec.scopeSelector.matchExpressions"
    named = [term.get("scopeName", "") for term in terms]
    for term, scope in zip(terms, named, strict=True):
        yield from _check_scope(scope, hard, f"{path}.scopeName", scope)
        yield from _check_term(term, path)
    yield from _check_opposites(named, "spec.scopeSelector")


def _check_scope(scope: str, hard: Raw, path: str, shown: object) -> Causes:
    if scope not in _SCOPES:
        yield causes.invalid(path, shown, "unsupported scope")
        return
    for name in hard:
        if is_quota_resource(name) and name not in _SCOPES[scope]:
            yield causes.invalid(path, shown, "unsupported scope applied to resource")


def _check_opposites(scopes: list[str], path: str) -> Causes:
    if any(pair <= set(scopes) for pair in _OPPOSITES):
        yield causes.invalid(path, scopes, "conflicting scopes")


def _check_term(term: Raw, path: str) -> Causes:
    operator, values = term.get("operator") or "", term.get("values") or ()
    if term.get("scopeName") in _EXIST_ONLY and operator != "Exists":
        yield causes.invalid(f"{path}.operator", operator, _EXISTS)
    elif operator in ("In", "NotIn"):
        if not values:
            detail = (
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
            yield causes.required(f"{path}.values", detail)
    elif operator not in ("Exists", "DoesNotExist"):
        yield causes.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif values:
        detail = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"
        yield causes.invalid(f"{path}.values", values, detail)


def _used(*, limits: bool) -> Cell:
    """The column of the used and hard amounts of limits, or of everything else."""

    def cell(quota: Raw, now: datetime) -> str:
        hard, used = fields(quota, "status.hard"), fields(quota, "status.used")
        names = [name for name in sorted(hard) if name.startswith("limits") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


RESOURCE_QUOTAS = Resource(
    "", "v1", "resourcequotas", "ResourceQuota", short=("quota",), subresources=STATUS,
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=lambda quota: fill(quota, status={})),
        checks=rules.Checks(always=_check_quota, immutable=("spec.scopes",)),
        deletion=rules.Deletion(answer="object"),
        quota=rules.Quota(counted_as="resourcequotas"),
        table=rules.Table(
            NAME | {"Request": _used(limits=False), "Limit": _used(limits=True)} | AGE
        ),
    ),
)  # fmt: skip


# -- LimitRange ----------------------------------------------------------------------------------

CONTAINER, POD, CLAIM = "Container", "Pod", "PersistentVolumeClaim"
_SIDES = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_NOT_OF_PODS = "may not be specified when `type` is 'Pod'"
_NO_STORAGE = "either minimum or maximum storage value is required, but neither was provided"
_LIMIT_TYPE = "must be a standard limit type or fully qualified"
_ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min", "defaultRequest", "defaultRequest", "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest", "max", "defaultRequest", "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest", "default", "defaultRequest", "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)  # fmt: skip
"""The smaller side, the larger one, the field and the value that an error names, its words."""


def _limits_of(limit_range: Raw) -> list[Raw]:
    return (limit_range.get("spec") or {}).get("limits") or []


def _complete_limit_range(limit_range: Raw) -> None:
    """The maximum is the default limit, which is the default request, which is else the minimum."""
    for item in _limits_of(limit_range):
        if item.get("type") != CONTAINER:
            continue
        for side, source in (("default", "max"), ("defaultRequest", "default")):
            for name, value in (item.get(source) or {}).items():
                ensure_map(item, side).setdefault(name, value)
        for name, value in (item.get("min") or {}).items():
            ensure_map(item, "defaultRequest").setdefault(name, value)


def _check_limit_range(limit_range: Raw) -> Causes:
    types: set[str] = set()
    for index, item in enumerate(_limits_of(limit_range)):
        path, kind = f"spec.limits[{index}]", str(item.get("type") or "")
        problems = names.check_key(kind)
        if not problems and "/" not in kind and kind not in (CONTAINER, POD, CLAIM):
            problems = [_LIMIT_TYPE]
        yield from names.invalid_values(f"{path}.type", kind, problems)
        if kind in types:
            yield causes.duplicate(f"{path}.type", kind)
        types.add(kind)
        yield from _check_names(item, kind, path)
        if kind == CLAIM and not any("storage" in (item.get(s) or {}) for s in ("min", "max")):
            yield causes.required(f"{path}.limits", _NO_STORAGE)
        yield from _check_amounts(item, path)


def _check_names(item: Raw, kind: str, path: str) -> Causes:
    for side in _SIDES:
        if kind == POD and side in ("default", "defaultRequest"):
            if item.get(side):
                yield causes.forbidden(f"{path}.{side}", _NOT_OF_PODS)
            continue
        for name in item.get(side) or {}:
            where = f"{path}.{side}[{name}]"
            if kind in (POD, CONTAINER):
                known = is_container_resource(name)
                yield from check_resource_name(name, where, "containers", known=known)
            else:
                yield from check_standard_name(name, where)


def _check_amounts(item: Raw, path: str) -> Causes:
    sides = {side: item.get(side) or {} for side in _SIDES}
    if item.get("type") == POD:
        sides |= {"default": {}, "defaultRequest": {}}
    for name in sorted({name for side in sides.values() for name in side}):
        amounts = {s: parse_quantity(of[name]) for s, of in sides.items() if name in of}
        yield from _check_order(name, amounts, path)
        yield from _check_ratio(name, amounts, path)
        default, request = amounts.get("default"), amounts.get("defaultRequest")
        if default and request and not overcommits(name) and default.nano != request.nano:
            values = f"default value {default} must equal to defaultRequest value {request}"
            yield causes.invalid(
                f"{path}.defaultRequest[{name}]", str(request), f"{values} in {name}"
            )


def _check_order(name: str, amounts: dict[str, Amount], path: str) -> Causes:
    for smaller, larger, field, shown, words in _ORDER:
        low, high = amounts.get(smaller), amounts.get(larger)
        if low and high and low.nano > high.nano:
            detail = words.format(low, high)
            yield causes.invalid(f"{path}.{field}[{name}]", str(amounts[shown]), detail)


def _check_ratio(name: str, amounts: dict[str, Amount], path: str) -> Causes:
    ratio, low, high = (amounts.get(s) for s in ("maxLimitRequestRatio", "min", "max"))
    if ratio is None:
        return
    where = f"{path}.maxLimitRequestRatio[{name}]"
    if ratio.nano < ONE.nano:
        yield causes.invalid(where, str(ratio), f"ratio {ratio} is less than 1")
    if low and high and low.nano and ratio.nano / ONE.nano > (most := high.nano / low.nano):
        detail = f"ratio {ratio} is greater than max/min = {most:f}"
        yield causes.invalid(where, str(ratio), detail)


# -- defaults of containers ----------------------------------------------------------------------


def complete_containers(spec: Raw, limit_range: Raw) -> Iterator[str]:
    """Set defaults in the spec of a pod; yields a note for each container that changed."""
    items = [item for item in _limits_of(limit_range) if item.get("type") == CONTAINER]
    sides = {
        side: {name: value for item in items for name, value in (item.get(source) or {}).items()}
        for side, source in (("requests", "defaultRequest"), ("limits", "default"))
    }
    for title, field in (("container", "containers"), ("init container", "initContainers")):
        for container in spec.get(field) or ():
            for side, word in (("requests", "request"), ("limits", "limit")):
                added = _fill(ensure_map(container, "resources"), side, sides[side])
                if added:
                    yield f"{', '.join(sorted(added))} {word} for {title} {container.get('name')}"


def _fill(resources: Raw, side: str, defaults: Raw) -> list[str]:
    # A limit without a request is also the request: that counts before the range's default.
    taken = {*(resources.get(side) or ())}
    taken |= {*(resources.get("limits") or ())} if side == "requests" else set()
    added = [name for name in defaults if name not in taken]
    for name in added:
        ensure_map(resources, side)[name] = defaults[name]
    return added


# -- objects outside of a range ------------------------------------------------------------------


def pod_violations(spec: Raw, limit_range: Raw) -> Iterator[str]:
    """Why a pod is outside of a range."""
    for item in _limits_of(limit_range):
        holders: list[tuple[Charge, Charge]] = []
        if item.get("type") == CONTAINER:
            containers = containers_of(spec)
            holders = [(amounts_of(c, "requests"), amounts_of(c, "limits")) for c in containers]
        elif item.get("type") == POD:
            holders = [(pod_sum(spec, "requests"), pod_sum(spec, "limits"))]
        for requests, limits in holders:
            yield from _out_of_bounds(item, "min", ("request", requests), ("limit", limits))
            yield from _out_of_bounds(item, "max", ("limit", limits), ("request", requests))
            yield from _above_ratio(item, requests, limits)


def claim_violations(spec: Raw, limit_range: Raw) -> Iterator[str]:
    """Why a volume claim is outside of a range."""
    requests = amounts_of(spec, "requests")
    for item in _limits_of(limit_range):
        if item.get("type") != CLAIM:
            continue
        yield from _out_of_bounds(item, "min", ("request", requests))
        yield from _out_of_bounds(item, "max", ("request", requests))


def _out_of_bounds(
    item: Raw, side: Literal["min", "max"], *holders: tuple[str, Charge]
) -> Iterator[str]:
    """Why amounts are beyond one side of a range; the first holder must name every resource."""
    word, sign = ("minimum", -1) if side == "min" else ("maximum", 1)
    for name, value in (item.get(side) or {}).items():
        bound = parse_quantity(value)
        rule = f"{word} {name} usage per {item['type']} is {bound}"
        if name not in holders[0][1]:
            yield f"{rule}.  No {holders[0][0]} is specified"
            continue
        amounts = ((what, held[name]) for what, held in holders if name in held)
        beyond = (pair for pair in amounts if sign * (pair[1].nano - bound.nano) > 0)
        if first := next(beyond, None):
            yield f"{rule}, but {first[0]} is {first[1]}"


def _above_ratio(item: Raw, requests: Charge, limits: Charge) -> Iterator[str]:
    for name, value in (item.get("maxLimitRequestRatio") or {}).items():
        most, request, limit = parse_quantity(value), requests.get(name), limits.get(name)
        rule = f"{name} max limit to request ratio per {item['type']} is {most}"
        if request is None or not request.nano:
            yield f"{rule}, but no request is specified or request is 0"
        elif limit is None or not limit.nano:
            yield f"{rule}, but no limit is specified or limit is 0"
        elif limit.nano * 10**9 > request.nano * most.nano:
            yield f"{rule}, but provided ratio is {limit.nano / request.nano:f}"


LIMIT_RANGES = Resource(
    "", "v1", "limitranges", "LimitRange", short=("limits",), create_on_update=True,
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=_complete_limit_range),
        checks=rules.Checks(always=_check_limit_range),
        table=rules.Table(NAME | CREATED_AT),
    ),
)  # fmt: skip
