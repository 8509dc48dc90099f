"""The rules in the schema of a definition: are they well formed, and do they compile?

A rule that cannot be evaluated here is rejected with the definition; no rule is ignored later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from localkube.apiserver.api_errors import Cause, invalid_value, not_supported, required
from localkube.apiserver.cel import field_path
from localkube.apiserver.cel.escaping import escape, fields_used, uses
from localkube.apiserver.cel.schema_types import Messages, as_resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.cel.environment import Checker

_RULES = "x-kubernetes-validations"
_REASONS = (
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired",
)  # fmt: skip


class _Node(NamedTuple):
    """A part of a schema that has rules."""

    schema: Raw
    path: str
    uncorrelatable: str
    """The path of the list above whose items have no old values; empty if there is none."""

    def rows(self) -> Iterator[tuple[str, Raw]]:
        for i, raw in enumerate(self.schema[_RULES]):
            yield f"{self.path}.{_RULES}[{i}]", raw


def check(schema: Raw, path: str) -> list[Cause]:
    """The causes for wrong rules anywhere in the schema of a version."""
    nodes = list(_nodes(schema, path, "", root=True))
    form = [cause for node in nodes for cause in _check_form(node)]
    # Rules of a definition that is malformed anyway are not compiled.
    return form or [cause for node in nodes for cause in _check_expressions(node)]


def _nodes(schema: Raw, path: str, uncorrelatable: str, *, root: bool = False) -> Iterator[_Node]:
    embedded = root or schema.get("x-kubernetes-embedded-resource")
    if schema.get(_RULES):
        yield _Node(as_resource(schema) if embedded else schema, path, uncorrelatable)
    for i, part in enumerate(schema.get("allOf") or ()):
        if isinstance(part, dict) and part.get(_RULES):
            merged = {**schema, "allOf": [], _RULES: part[_RULES]}
            yield _Node(merged, f"{path}.allOf[{i}]", uncorrelatable)
    for name, part in (schema.get("properties") or {}).items():
        yield from _nodes(part, f"{path}.properties[{name}]", uncorrelatable)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        yield from _nodes(values, f"{path}.additionalProperties", uncorrelatable)
    if isinstance(schema.get("items"), dict):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        above = uncorrelatable or ("" if keyed else path)
        yield from _nodes(schema["items"], f"{path}.items", above)


def _check_form(node: _Node) -> Iterator[Cause]:
    for path, raw in node.rows():
        rule, message = str(raw.get("rule") or ""), str(raw.get("message") or "")
        if not rule.strip():
            yield required(f"{path}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid_value(f"{path}.message", message, "must be non-empty if specified")
        elif "\n" in message.strip():
            yield invalid_value(f"{path}.message", message, "must not contain line breaks")
        elif "\n" in rule.strip() and not message.strip():
            why = "message must be specified if rule contains line breaks"
            yield required(f"{path}.message", why)
        if raw.get("messageExpression") and not raw["messageExpression"].strip():
            why = "messageExpression must be non-empty if specified"
            yield required(f"{path}.messageExpression", why)
        if raw.get("reason") is not None and raw["reason"] not in _REASONS:
            yield not_supported(f"{path}.reason", raw["reason"], _REASONS)
        yield from _check_field_path(raw.get("fieldPath") or "", path, node.schema)


def _check_field_path(written: str, path: str, schema: Raw) -> Iterator[Cause]:
    where = f"{path}.fieldPath"
    if written and not written.strip():
        yield invalid_value(where, written, "must be non-empty if specified")
    if "\n" in written:
        yield invalid_value(where, written, "must not contain line breaks")
    if written:
        try:
            field_path.normalized(written, schema)
        except field_path.InvalidPath:
            yield invalid_value(where, written, "must be a valid path")


def _check_expressions(node: _Node) -> Iterator[Cause]:
    rows = list(node.rows())
    schema = _read_part(node.schema, [raw for _, raw in rows])
    problems = _compile(msgspec.json.encode(schema))
    for (path, raw), (rule_problem, message_problem) in zip(rows, problems, strict=True):
        if rule_problem:
            yield invalid_value(f"{path}.rule", raw, rule_problem)
        if message_problem:
            yield invalid_value(f"{path}.messageExpression", raw, message_problem)
        if rule_problem:
            continue
        if not uses(raw["rule"], "oldSelf"):
            if raw.get("optionalOldSelf") is not None:
                why = "may not be set if oldSelf is not used in rule"
                yield invalid_value(f"{path}.optionalOldSelf", raw["optionalOldSelf"], why)
        elif node.uncorrelatable:
            why = (
                "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                f" {node.uncorrelatable}"
            )
            yield invalid_value(f"{path}.rule", raw["rule"], why)


def _read_part(schema: Raw, rules: list[Raw]) -> Raw:
    """The fields of a schema that its rules read: the same in most versions of a definition."""
    texts = [str(raw.get(name) or "") for raw in rules for name in ("rule", "messageExpression")]
    read = [fields_used(text, name) for text in texts for name in ("self", "oldSelf")]
    optional = any(raw.get("optionalOldSelf") for raw in rules)
    if None in read or optional or not schema.get("properties"):
        return schema
    names = frozenset[str]().union(*(fields for fields in read if fields is not None))
    properties = {k: v for k, v in schema["properties"].items() if (escape(k) or k) in names}
    return {**schema, "properties": properties, "description": ""}


@lru_cache(maxsize=64)
def _compile(encoded: bytes) -> list[tuple[str, str]]:
    """The problems of each rule of a schema and of its message; empty if it compiles."""
    from localkube.apiserver.cel import environment

    schema: Raw = msgspec.json.decode(encoded)
    rules: list[Raw] = schema[_RULES]
    messages = Messages()
    kind = messages.type_of(schema)
    if kind is None:
        return [("the schema has no type that a rule could read", "")] * len(rules)
    texts = [str(raw.get(name) or "") for raw in rules for name in ("rule", "messageExpression")]
    checkers = {}
    found = []
    for raw in rules:
        optional = bool(raw.get("optionalOldSelf"))
        if optional not in checkers:
            old = {"type_name": "optional_type", "params": [kind]} if optional else kind
            variables = messages.variables({"self": kind, "oldSelf": old})
            checkers[optional] = environment.Checker(variables, texts)
        found.append(_problems(checkers[optional], raw))
    return found


def _problems(checker: Checker, raw: Raw) -> tuple[str, str]:
    rule = checker.check(raw["rule"])
    if rule.problem:
        return f"compilation failed: {rule.problem}", ""
    if rule.result_type != "BOOL":
        return "cel expression must evaluate to a bool", ""
    if not raw.get("messageExpression"):
        return "", ""
    message = checker.check(raw["messageExpression"])
    if message.problem:
        return "", f"messageExpression compilation failed: {message.problem}"
    if message.result_type != "STRING":
        return "", "messageExpression must evaluate to a string"
    return "", ""
