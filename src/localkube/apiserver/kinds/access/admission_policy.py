"""ValidatingAdmissionPolicy and its binding: defaults, checks, columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import (
    Causes,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from localkube.apiserver.kinds.access.admission_rule import check_conditions, check_rule
from localkube.apiserver.kinds.fields import check_name, each, fill
from localkube.apiserver.policies import expression_checks
from localkube.apiserver.resource import STATUS, Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, fields, text, text_at

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

GROUP = "admissionregistration.k8s.io"
_POLICIES = ("Fail", "Ignore")
_MATCH_POLICIES = ("Equivalent", "Exact")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
_ONE_OF_BOTH = "validations or auditAnnotations must contain at least one item"


# -- defaults ------------------------------------------------------------------------------------


def _policy_defaults(policy: Raw) -> None:
    spec = policy.get("spec") or {}
    fill(spec, failurePolicy="Fail")
    _match_defaults(spec.get("matchConstraints"))


def _finish_create(policy: Raw, now: str) -> None:
    policy["status"] = {}


def _binding_defaults(binding: Raw) -> None:
    _match_defaults((binding.get("spec") or {}).get("matchResources"))


def _match_defaults(match: Raw | None) -> None:
    if match is None:
        return
    fill(match, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            fill(rule, scope="*")


# -- checks of a policy --------------------------------------------------------------------------


def _check_policy(policy: Raw) -> Causes:
    spec = policy.get("spec") or {}
    causes = list(_check_policy_form(spec))
    # Expressions are compiled when everything around them is as it should be.
    yield from causes or expression_checks.check(spec)


def _check_policy_form(spec: Raw) -> Causes:
    if spec.get("failurePolicy") not in _POLICIES:
        yield not_supported("spec.failurePolicy", spec.get("failurePolicy"), _POLICIES)
    if spec.get("paramKind") is not None:
        yield from _check_param_kind(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        yield required("spec.matchConstraints")
    else:
        yield from _check_match(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
    yield from check_conditions(spec, "spec", has_params=bool(spec.get("paramKind")))
    for path, row in each(spec, "spec", "variables"):
        yield from _check_variable(row, path)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        yield required("spec.validations", _ONE_OF_BOTH)
        yield required("spec.auditAnnotations", _ONE_OF_BOTH)
    for path, row in each(spec, "spec", "validations"):
        yield from _check_validation(row, path)
    for path, row in each(spec, "spec", "auditAnnotations"):
        yield from check_name(row, path, names.check_key, "key")
        if not str(row.get("valueExpression") or "").strip():
            yield required(f"{path}.valueExpression", "valueExpression is not specified")


def _check_param_kind(kind: Raw, path: str) -> Causes:
    if not kind.get("apiVersion"):
        yield required(f"{path}.apiVersion")
    if not kind.get("kind"):
        yield required(f"{path}.kind")


def _check_variable(row: Raw, path: str) -> Causes:
    name = str(row.get("name") or "")
    if not name.strip():
        yield required(f"{path}.name", "name is not specified")
    elif not _IDENTIFIER.match(name):
        yield invalid_value(f"{path}.name", name, "must be a valid CEL identifier")
    if not str(row.get("expression") or "").strip():
        yield required(f"{path}.expression", "expression is not specified")


def _check_validation(row: Raw, path: str) -> Causes:
    if not str(row.get("expression") or "").strip():
        yield required(f"{path}.expression", "expression is not specified")
    for field in ("messageExpression", "message"):
        value = str(row.get(field) or "")
        if value and not value.strip():
            yield invalid_value(f"{path}.{field}", value, "must be non-empty if specified")
    message = str(row.get("message") or "")
    if "\n" in message.strip():
        yield invalid_value(f"{path}.message", message, "must not contain line breaks")
    if row.get("reason") is not None and row["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", row["reason"], _REASONS)


def _check_match(match: Raw, path: str) -> Causes:
    if match.get("matchPolicy") not in _MATCH_POLICIES:
        yield not_supported(f"{path}.matchPolicy", match.get("matchPolicy"), _MATCH_POLICIES)
    for field in ("namespaceSelector", "objectSelector"):
        labels = (match.get(field) or {}).get("matchLabels") or {}
        yield from names.check_labels(labels, f"{path}.{field}.matchLabels")
    for field in ("resourceRules", "excludeResourceRules"):
        for where, rule in each(match, path, field):
            yield from check_rule(rule, where)


# -- checks of a binding -------------------------------------------------------------------------


def _check_binding(binding: Raw) -> Causes:
    spec = binding.get("spec") or {}
    yield from check_name(spec, "spec", names.check_subdomain, "policyName")
    if spec.get("paramRef") is not None:
        yield from _check_param_ref(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        yield from _check_match(spec["matchResources"], "spec.matchResources")
    yield from _check_actions(spec.get("validationActions") or [], "spec.validationActions")


def _check_param_ref(ref: Raw, path: str) -> Causes:
    exclusive = "name and selector are mutually exclusive"
    if ref.get("name") and ref.get("selector") is not None:
        yield forbidden_field(f"{path}.name", exclusive)
        yield forbidden_field(f"{path}.selector", exclusive)
    if not ref.get("name") and ref.get("selector") is None:
        yield required(path, "one of name or selector must be specified")
    action = ref.get("parameterNotFoundAction")
    if not action:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        yield not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _check_actions(actions: list[str], path: str) -> Causes:
    for i, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"{path}[{i}]", action, _ACTIONS)
        if action in actions[:i]:
            yield duplicate(f"{path}[{i}]", action)
    if "Deny" in actions and "Warn" in actions:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure information"
            " in the API response and headers serves no purpose)"
        )
        yield invalid_value(path, actions, why)
    if not actions:
        yield required(path, "at least one validation action is required")


# -- columns -------------------------------------------------------------------------------------


def _param_kind(policy: Raw, now: datetime) -> str:
    kind = fields(policy, "spec.paramKind")
    return f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}" if kind else "<unset>"


def _param_ref(binding: Raw, now: datetime) -> str:
    ref = fields(binding, "spec.paramRef")
    return f"{text(ref, 'namespace') or '*'}/{text(ref, 'name')}" if ref else "<unset>"


def _validations(policy: Raw, now: datetime) -> int:
    rows = fields(policy, "spec").get("validations")
    return len(rows) if isinstance(rows, list) else 0


POLICIES = Resource(
    GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False,
    categories=("api-extensions",), subresources=STATUS,
    strategy=Strategy(
        generation="spec",
        defaults=_policy_defaults,
        finish_create=_finish_create,
        check=_check_policy,
        columns=NAME | {
            "Validations": _validations,
            "ParamKind": _param_kind,
        } | AGE,
    ),
)  # fmt: skip
BINDINGS = Resource(
    GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False,
    categories=("api-extensions",),
    strategy=Strategy(
        generation="spec",
        defaults=_binding_defaults,
        check=_check_binding,
        columns=NAME | {"PolicyName": text_at("spec.policyName"), "ParamRef": _param_ref} | AGE,
    ),
)  # fmt: skip
