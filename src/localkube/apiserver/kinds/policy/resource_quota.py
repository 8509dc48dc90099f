"""ResourceQuota: checks of amounts and scopes, which pods a scope selects, columns.

`admission.quota` counts the use of quotas and rejects objects that exceed them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.api_errors import Causes, invalid_value, required
from localkube.apiserver.kinds.fields import fill
from localkube.apiserver.kinds.pods.pod_resources import (
    check_amount,
    check_resource_name,
    is_best_effort,
    is_quota_resource,
)
from localkube.apiserver.resource import STATUS, Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, Cell, fields

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

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


# -- scopes --------------------------------------------------------------------------------------


def scope_terms(spec: Raw) -> list[Raw]:
    """The terms that an object must match to count in a quota with this spec."""
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return [*terms, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def matches_scope(term: Raw, pod: Raw) -> bool:
    """Whether a pod is in the scope of a term."""
    spec = pod["spec"]
    match term.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return is_best_effort(spec)
        case "NotBestEffort":
            return not is_best_effort(spec)
        case "PriorityClass":
            return _matches_class(term, spec.get("priorityClassName") or "")
        case _:
            return False


def _matches_class(term: Raw, name: str) -> bool:
    values = term.get("values") or ()
    matches = {"In": name in values, "NotIn": name not in values, "DoesNotExist": not name}
    return matches.get(term.get("operator") or "", bool(name))


def _defaults(quota: Raw) -> None:
    fill(quota, status={})


# -- checks --------------------------------------------------------------------------------------


def _check(quota: Raw) -> Causes:
    spec: Raw = quota.get("spec") or {}
    hard = spec.get("hard") or {}
    for name, value in hard.items():
        path = f"spec.hard[{name}]"
        yield from check_resource_name(name, path, "quota", known=is_quota_resource(name))
        yield from check_amount(name, value, path)
    scopes = spec.get("scopes") or []
    yield from _check_scopes(scopes, hard, "spec.scopes", scopes)
    terms = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    path = "spec.scopeSelector.matchExpressions"
    for term in terms:
        yield from _check_scopes([term.get("scopeName", "")], hard, f"{path}.scopeName", None)
        yield from _check_term(term, path)
    named = [term.get("scopeName", "") for term in terms]
    if _contradict(named):
        yield invalid_value("spec.scopeSelector", named, "conflicting scopes")


def _check_scopes(scopes: list[str], hard: Raw, path: str, shown: object) -> Causes:
    for scope in scopes:
        value = shown if shown is not None else scope
        if scope not in _SCOPES:
            yield invalid_value(path, value, "unsupported scope")
            continue
        for name in hard:
            if is_quota_resource(name) and name not in _SCOPES[scope]:
                yield invalid_value(path, value, "unsupported scope applied to resource")
    if _contradict(scopes):
        yield invalid_value(path, shown, "conflicting scopes")


def _contradict(scopes: list[str]) -> bool:
    return any(pair <= set(scopes) for pair in _OPPOSITES)


def _check_term(term: Raw, path: str) -> Causes:
    operator, values = term.get("operator") or "", term.get("values") or ()
    if term.get("scopeName") in _EXIST_ONLY and operator != "Exists":
        yield invalid_value(f"{path}.operator", operator, _EXISTS)
    elif operator in ("In", "NotIn"):
        if not values:
            detail = (
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
            yield required(f"{path}.values", detail)
    elif operator not in ("Exists", "DoesNotExist"):
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif values:
        detail = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"
        yield invalid_value(f"{path}.values", values, detail)


def _used(*, limits: bool) -> Cell:
    """The column of the used and hard amounts of limits, or of everything else."""

    def cell(quota: Raw, now: datetime) -> str:
        hard, used = fields(quota, "status.hard"), fields(quota, "status.used")
        names = [name for name in sorted(hard) if name.startswith("limits") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


RESOURCE_QUOTAS = Resource(
    "", "v1", "resourcequotas", "ResourceQuota", short=("quota",), subresources=STATUS,
    strategy=Strategy(
        defaults=_defaults,
        check=_check,
        immutable=("spec.scopes",),
        delete_answer="object",
        counted_as="resourcequotas",
        columns=NAME | {"Request": _used(limits=False), "Limit": _used(limits=True)} | AGE,
    ),
)  # fmt: skip
