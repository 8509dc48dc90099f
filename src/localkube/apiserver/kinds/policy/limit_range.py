"""LimitRange: defaults of its items, checks, its rules for pods and claims, and its Resource.

`admission.limit_ranges` applies the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.quantity import parse_quantity
from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import (
    Causes,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from localkube.apiserver.kinds.fields import ensure_map
from localkube.apiserver.kinds.pods.pod_resources import (
    ONE,
    amounts_of,
    check_resource_name,
    check_standard_name,
    is_container_resource,
    overcommits,
    pod_sum,
)
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import CREATED_AT, NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from kubekit.objects.quantity import Amount
    from localkube.apiserver.kinds.pods.pod_resources import Charge

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


def limits_of(limit_range: Raw) -> list[Raw]:
    return (limit_range.get("spec") or {}).get("limits") or []


def _defaults(limit_range: Raw) -> None:
    """The maximum is the default limit, which is the default request, which is else the minimum."""
    for item in limits_of(limit_range):
        if item.get("type") != CONTAINER:
            continue
        for side, source in (("default", "max"), ("defaultRequest", "default")):
            for name, value in (item.get(source) or {}).items():
                ensure_map(item, side).setdefault(name, value)
        for name, value in (item.get("min") or {}).items():
            ensure_map(item, "defaultRequest").setdefault(name, value)


# -- checks --------------------------------------------------------------------------------------


def _check(limit_range: Raw) -> Causes:
    types: set[str] = set()
    for index, item in enumerate(limits_of(limit_range)):
        path, kind = f"spec.limits[{index}]", str(item.get("type") or "")
        yield from _check_type(kind, f"{path}.type")
        if kind in types:
            yield duplicate(f"{path}.type", kind)
        types.add(kind)
        yield from _check_names(item, kind, path)
        if kind == CLAIM and not any("storage" in (item.get(s) or {}) for s in ("min", "max")):
            yield required(f"{path}.limits", _NO_STORAGE)
        yield from _check_amounts(item, path)


def _check_type(kind: str, path: str) -> Causes:
    problems = names.check_key(kind)
    yield from names.invalid_values(path, kind, problems)
    if not problems and "/" not in kind and kind not in (CONTAINER, POD, CLAIM):
        yield invalid_value(path, kind, _LIMIT_TYPE)


def _check_names(item: Raw, kind: str, path: str) -> Causes:
    for side in _SIDES:
        if kind == POD and side in ("default", "defaultRequest"):
            if item.get(side):
                yield forbidden_field(f"{path}.{side}", _NOT_OF_PODS)
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
            yield invalid_value(
                f"{path}.defaultRequest[{name}]", str(request), f"{values} in {name}"
            )


def _check_order(name: str, amounts: dict[str, Amount], path: str) -> Causes:
    for smaller, larger, field, shown, words in _ORDER:
        low, high = amounts.get(smaller), amounts.get(larger)
        if low and high and low.nano > high.nano:
            detail = words.format(low, high)
            yield invalid_value(f"{path}.{field}[{name}]", str(amounts[shown]), detail)


def _check_ratio(name: str, amounts: dict[str, Amount], path: str) -> Causes:
    ratio, low, high = (amounts.get(s) for s in ("maxLimitRequestRatio", "min", "max"))
    if ratio is None:
        return
    where = f"{path}.maxLimitRequestRatio[{name}]"
    if ratio.nano < ONE.nano:
        yield invalid_value(where, str(ratio), f"ratio {ratio} is less than 1")
    if low and high and low.nano and ratio.nano / ONE.nano > (most := high.nano / low.nano):
        detail = f"ratio {ratio} is greater than max/min = {most:f}"
        yield invalid_value(where, str(ratio), detail)


# -- defaults of containers ----------------------------------------------------------------------


def complete_containers(spec: Raw, limit_range: Raw) -> Iterator[str]:
    """Set defaults in the spec of a pod; yields a note for each container that changed."""
    items = [item for item in limits_of(limit_range) if item.get("type") == CONTAINER]
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
    for item in limits_of(limit_range):
        holders: list[tuple[Charge, Charge]] = []
        if item.get("type") == CONTAINER:
            containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
            holders = [(amounts_of(c, "requests"), amounts_of(c, "limits")) for c in containers]
        elif item.get("type") == POD:
            holders = [(pod_sum(spec, "requests"), pod_sum(spec, "limits"))]
        for requests, limits in holders:
            yield from _below_minimum(item, requests, limits)
            yield from _above_maximum(item, requests, limits)
            yield from _above_ratio(item, requests, limits)


def claim_violations(spec: Raw, limit_range: Raw) -> Iterator[str]:
    """Why a volume claim is outside of a range."""
    requests = amounts_of(spec, "requests")
    for item in limits_of(limit_range):
        if item.get("type") != CLAIM:
            continue
        yield from _below_minimum(item, requests, {})
        yield from _request_above_maximum(item, requests)


def _below_minimum(item: Raw, requests: Charge, limits: Charge) -> Iterator[str]:
    for name, value in (item.get("min") or {}).items():
        least, request, limit = parse_quantity(value), requests.get(name), limits.get(name)
        rule = f"minimum {name} usage per {item['type']} is {least}"
        if request is None:
            yield f"{rule}.  No request is specified"
        elif request.nano < least.nano:
            yield f"{rule}, but request is {request}"
        elif limit is not None and limit.nano < least.nano:
            yield f"{rule}, but limit is {limit}"


def _above_maximum(item: Raw, requests: Charge, limits: Charge) -> Iterator[str]:
    for name, value in (item.get("max") or {}).items():
        most, request, limit = parse_quantity(value), requests.get(name), limits.get(name)
        rule = f"maximum {name} usage per {item['type']} is {most}"
        if limit is None:
            yield f"{rule}.  No limit is specified"
        elif limit.nano > most.nano:
            yield f"{rule}, but limit is {limit}"
        elif request is not None and request.nano > most.nano:
            yield f"{rule}, but request is {request}"


def _request_above_maximum(item: Raw, requests: Charge) -> Iterator[str]:
    for name, value in (item.get("max") or {}).items():
        most, request = parse_quantity(value), requests.get(name)
        rule = f"maximum {name} usage per {item['type']} is {most}"
        if request is None:
            yield f"{rule}.  No request is specified"
        elif request.nano > most.nano:
            yield f"{rule}, but request is {request}"


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
    strategy=Strategy(defaults=_defaults, check=_check, columns=NAME | CREATED_AT),
)  # fmt: skip
