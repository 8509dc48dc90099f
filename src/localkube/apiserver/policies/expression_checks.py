"""Whether the expressions of admission policies and of match conditions compile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.api_errors import Cause, invalid_value
from localkube.apiserver.cel.schema_types import field_type
from localkube.apiserver.policies import variable_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.cel.environment import Checker

_BOOL, _TEXT = ("bool", "dyn"), ("string", "dyn")


def check(spec: Raw) -> Iterator[Cause]:
    """The causes for expressions of a policy, besides its conditions, that do not compile."""
    composed: dict[str, Raw] = {}
    rows: list[Raw] = spec.get("variables") or []
    for i, row in enumerate(rows):
        path = f"spec.variables[{i}].expression"
        checker = _checker(spec, composed, [row["expression"]])
        cause = _cause(checker, row["expression"], path, ())
        if cause:
            yield cause
        composed[row["name"]] = field_type(checker.check(row["expression"]).result_type)
    yield from _check_validations(spec, composed if rows else None)
    yield from _check_annotations(spec, composed if rows else None)


def check_condition(expression: str, path: str, *, has_params: bool) -> Iterator[Cause]:
    """The cause for a match condition, of a policy or a webhook, that does not compile."""
    checker = _checker({"paramKind": has_params}, None, [expression])
    if cause := _cause(checker, expression, path, _BOOL):
        yield cause


def _check_validations(spec: Raw, composed: dict[str, Raw] | None) -> Iterator[Cause]:
    rows: list[Raw] = spec.get("validations") or []
    texts = [row.get(field) or "" for row in rows for field in ("expression", "messageExpression")]
    checker = _checker(spec, composed, texts)
    for_messages = _checker(spec, composed, texts, has_authorizer=False)
    for i, row in enumerate(rows):
        path = f"spec.validations[{i}]"
        if cause := _cause(checker, row["expression"], f"{path}.expression", _BOOL):
            yield cause
        message = row.get("messageExpression")
        where = f"{path}.messageExpression"
        if message and (cause := _cause(for_messages, message, where, _TEXT)):
            yield cause


def _check_annotations(spec: Raw, composed: dict[str, Raw] | None) -> Iterator[Cause]:
    rows: list[Raw] = spec.get("auditAnnotations") or []
    if rows:
        checker = _checker(spec, composed, [row["valueExpression"] for row in rows])
        for i, row in enumerate(rows):
            path = f"spec.auditAnnotations[{i}].valueExpression"
            wanted = (*_TEXT, "null", "null_type")
            if cause := _cause(checker, row["valueExpression"], path, wanted):
                yield cause


def _checker(
    spec: Raw, composed: dict[str, Raw] | None, texts: list[str], *, has_authorizer: bool = True
) -> Checker:
    from localkube.apiserver.cel.environment import Checker

    has_params = bool(spec.get("paramKind"))
    types = variable_types.variables(composed, has_params=has_params, has_authorizer=has_authorizer)
    return Checker(types, texts)


def _cause(checker: Checker, expression: str, path: str, wanted: tuple[str, ...]) -> Cause | None:
    found = checker.check(expression)
    if found.problem:
        return invalid_value(path, expression, f"compilation failed: {found.problem}")
    result_type = found.result_type.lower()
    if wanted and result_type not in wanted:
        words = " or ".join(word for word in wanted if word not in ("dyn", "null_type"))
        return invalid_value(path, expression, f"must evaluate to {words}")
    if result_type.startswith("optional_type"):
        why = "compilation failed: a variable cannot be an optional on the local cluster"
        return invalid_value(path, expression, why)
    return None
