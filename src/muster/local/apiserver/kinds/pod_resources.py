"""Amounts of resources: which may be asked for, and in which numbers.

Pure; called by `containers.py` and `quotas.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.quantity import parse_quantity
from muster.local.apiserver import api_errors
from muster.local.apiserver.admission import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset(
    {
        "pods",
        "services",
        "services.nodeports",
        "services.loadbalancers",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
    }
)
_OF_QUOTAS = _COUNTED | {
    prefix + name for prefix in ("", "requests.", "limits.") for name in _OF_CONTAINERS
}
_STORED = frozenset({"storage", "requests.storage"})
_WHOLE = 10**9


def check_container_resources(resources: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with what a container asks for."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in limits.items():
        yield from _of_container(name, value, f"{path}.limits[{name}]")
    unlimited = False
    for name, value in requests.items():
        yield from _of_container(name, value, f"{path}.requests[{name}]")
        if name not in limits:
            unlimited |= not _overcommits(name)
            continue
        asked, limit = parse_quantity(value), parse_quantity(limits[name])
        if asked.nano != limit.nano and not _overcommits(name):
            told = f"must be equal to {name} limit of {limit}"
            yield api_errors.invalid_value(f"{path}.requests", str(asked), told)
        elif asked.nano > limit.nano:
            told = f"must be less than or equal to {name} limit of {limit}"
            yield api_errors.invalid_value(f"{path}.requests", str(asked), told)
    if unlimited:
        told = "Limit must be set for non overcommitable resources"
        yield api_errors.required(f"{path}.limits", told)


def check_pod_resources(resources: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with what a whole pod asks for."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            where = f"{path}.{side}[{name}]"
            if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
                yield api_errors.not_supported(where, name, ("cpu", "hugepages-", "memory"))
            yield from _amount(name, value, where)
    for name, value in requests.items():
        asked, limit = parse_quantity(value), parse_quantity(limits.get(name, value))
        if asked.nano > limit.nano:
            told = f"must be less than or equal to {name} limit of {limit}"
            yield api_errors.invalid_value(f"{path}.requests", str(asked), told)


def check_quota(hard: Raw) -> Iterator[Cause]:
    """What is wrong with the amounts of a quota."""
    for name, value in hard.items():
        path = f"spec.hard[{name}]"
        yield from _name(name, path, "quota", known=is_quota_resource(name))
        yield from _amount(name, value, path)


def is_quota_resource(name: str) -> bool:
    """Whether a quota can name this without saying whose it is."""
    bare = name.removeprefix("requests.")
    return name in _OF_QUOTAS | _STORED or bare.startswith("hugepages-")


def _of_container(name: str, value: object, path: str) -> Iterator[Cause]:
    known = name in _OF_CONTAINERS or name.startswith("hugepages-")
    yield from _name(name, path, "containers", known=known)
    yield from _amount(name, value, path)


def _name(name: str, path: str, owner: str, *, known: bool) -> Iterator[Cause]:
    wrong = names.check_key(name)
    yield from (api_errors.invalid_value(path, name, told) for told in wrong)
    if known or "/" in name:
        return
    if not wrong and not is_quota_resource(name):
        yield api_errors.invalid_value(
            path, name, "must be a standard resource type or fully qualified"
        )
    yield api_errors.invalid_value(path, name, f"must be a standard resource for {owner}")


def _amount(name: str, value: object, path: str) -> Iterator[Cause]:
    amount = parse_quantity(value)
    if amount.nano < 0:
        yield api_errors.invalid_value(path, str(amount), "must be greater than or equal to 0")
    if amount.nano % _WHOLE and (name in _COUNTED or not _overcommits(name)):
        yield api_errors.invalid_value(path, str(amount), "must be an integer")


def _overcommits(name: str) -> bool:
    """Whether more of it may be promised than there is: not of devices, nor of huge pages."""
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith("hugepages-")
