"""Which requests webhooks and admission policies match: their rules and match conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import (
    Causes,
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_many_items,
)
from localkube.apiserver.kinds.fields import check_name, each, one_of
from localkube.apiserver.policies import expression_checks

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MOST_CONDITIONS = 64


def check_rule(rule: Raw, path: str) -> Causes:
    """The causes for an invalid rule."""
    operations = rule.get("operations") or []
    if not operations:
        yield required(f"{path}.operations")
    yield from _check_alone(operations, f"{path}.operations", "operations")
    for i, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{i}]", operation, _OPERATIONS)
    for field, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        if not rule.get(field):
            yield required(f"{path}.{field}")
        yield from _check_alone(rule.get(field) or [], f"{path}.{field}", what)
    for i, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield required(f"{path}.apiVersions[{i}]")
    yield from _check_resources(rule.get("resources") or [], f"{path}.resources")
    yield from one_of(rule, "scope", _SCOPES, path)


def _check_alone(values: list[str], path: str, what: str) -> Causes:
    if len(values) > 1 and "*" in values:
        yield invalid_value(path, values, f"if '*' is present, must not specify other {what}")


def _check_resources(resources: list[str], path: str) -> Causes:
    if not resources:
        yield required(path)
    every_sub: set[str] = set()
    every_resource: set[str] = set()
    plain_last = False
    for i, entry in enumerate(resources):
        if not entry:
            yield required(f"{path}[{i}]")
            continue
        resource, slash, sub = entry.partition("/")
        if not slash:
            plain_last = entry != "*"
            continue
        if resource in every_sub:
            detail = f"if '{resource}/*' is present, must not specify {entry}"
            yield invalid_value(f"{path}[{i}]", entry, detail)
        if sub in every_resource:
            detail = f"if '*/{sub}' is present, must not specify {entry}"
            yield invalid_value(f"{path}[{i}]", entry, detail)
        every_sub |= {resource} if sub == "*" else set()
        every_resource |= {sub} if resource == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        yield invalid_value(path, resources, detail)
    if "*" in resources and plain_last:
        detail = "if '*' is present, must not specify other resources without subresources"
        yield invalid_value(path, resources, detail)


def check_conditions(matching: Raw, path: str, *, has_params: bool = False) -> Causes:
    """The causes for invalid `matchConditions` of a webhook or of the spec of a policy."""
    number = len(matching.get("matchConditions") or ())
    if number > _MOST_CONDITIONS:
        yield too_many_items(f"{path}.matchConditions", number, _MOST_CONDITIONS)
    seen = set()
    for where, row in each(matching, path, "matchConditions"):
        expression = str(row.get("expression") or "").strip()
        if expression:
            compiled = f"{where}.expression"
            yield from expression_checks.check_condition(
                expression, compiled, has_params=has_params
            )
        else:
            yield required(f"{where}.expression")
        yield from check_name(row, where, names.check_key)
        if row.get("name") and row["name"] in seen:
            yield duplicate(f"{where}.name", row["name"])
        seen.add(row.get("name"))
