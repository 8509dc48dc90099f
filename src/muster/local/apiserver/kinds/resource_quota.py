"""What a ResourceQuota may not say: amounts, and scopes that exclude each other or the amounts.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors
from muster.local.apiserver.kinds.pod_resources import check_quota, is_quota_resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

_PODS = frozenset({"pods"})
_COMPUTED = _PODS | {p + r for p in ("", "requests.", "limits.") for r in ("cpu", "memory")}
_CLAIMS = frozenset({"persistentvolumeclaims", "requests.storage"})
_SCOPES = {
    "Terminating": _COMPUTED,
    "NotTerminating": _COMPUTED,
    "BestEffort": _PODS,
    "NotBestEffort": _COMPUTED,
    "PriorityClass": _COMPUTED,
    "CrossNamespacePodAffinity": _COMPUTED,
    "VolumeAttributesClass": _CLAIMS,
}
_EXIST_ONLY = frozenset(_SCOPES) - {"PriorityClass", "VolumeAttributesClass"}
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating,"
    " ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort,"
    " ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def check(quota: Raw) -> Iterator[Cause]:
    """What is wrong with a quota."""
    spec: Raw = quota.get("spec") or {}
    hard = spec.get("hard") or {}
    yield from check_quota(hard)
    scopes = spec.get("scopes") or []
    yield from _scopes(scopes, hard, "spec.scopes", scopes)
    terms = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    path = "spec.scopeSelector.matchExpressions"
    for term in terms:
        yield from _scopes([term.get("scopeName", "")], hard, f"{path}.scopeName", None)
        yield from _term(term, path)
    named = [term.get("scopeName", "") for term in terms]
    if _contradict(named):
        yield api_errors.invalid_value("spec.scopeSelector", named, "conflicting scopes")


def _scopes(scopes: list[str], hard: Raw, path: str, shown: object) -> Iterator[Cause]:
    for scope in scopes:
        value = shown if shown is not None else scope
        if scope not in _SCOPES:
            yield api_errors.invalid_value(path, value, "unsupported scope")
            continue
        for name in hard:
            if is_quota_resource(name) and name not in _SCOPES[scope]:
                yield api_errors.invalid_value(path, value, "unsupported scope applied to resource")
    if _contradict(scopes):
        yield api_errors.invalid_value(path, shown, "conflicting scopes")


def _contradict(scopes: list[str]) -> bool:
    return any(pair <= set(scopes) for pair in _OPPOSITES)


def _term(term: Raw, path: str) -> Iterator[Cause]:
    operator, values = term.get("operator") or "", term.get("values") or ()
    if term.get("scopeName") in _EXIST_ONLY and operator != "Exists":
        yield api_errors.invalid_value(f"{path}.operator", operator, _EXISTS)
    elif operator in ("In", "NotIn"):
        if not values:
            told = (
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
            yield api_errors.required(f"{path}.values", told)
    elif operator not in ("Exists", "DoesNotExist"):
        yield api_errors.invalid_value(
            f"{path}.operator", operator, "not a valid selector operator"
        )
    elif values:
        told = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"
        yield api_errors.invalid_value(f"{path}.values", values, told)
