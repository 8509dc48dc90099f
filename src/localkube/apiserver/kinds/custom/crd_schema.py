"""The schema in a definition: every field has a type, every pattern compiles, defaults fit.

The published schema of definitions gives `items` and `additionalProperties` no type, because each
is a schema or a list or a boolean. `check_nested_types` checks the types below them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import re2

from kubekit import schemas
from kubekit.schemas import Schema
from localkube.apiserver.api_errors import (
    Causes,
    forbidden_field,
    invalid_type,
    invalid_value,
    not_supported,
    required,
)
from localkube.apiserver.schema import structural
from localkube.apiserver.schema.values import compile_pattern

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw


_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def check_schema(schema: Raw, path: str) -> Causes:
    """The causes for an invalid schema of a version."""
    if not schema.get("type"):
        yield required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield invalid_value(f"{path}.type", schema["type"], "must be object at the root")
    else:
        yield from _check_node(schema, path)


def _check_node(schema: Raw, path: str) -> Causes:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
        return
    if "pattern" in schema:
        yield from _check_pattern(schema["pattern"], f"{path}.pattern")
    if "default" in schema:
        yield from _check_default(schema, f"{path}.default")
    if isinstance(schema.get("items"), list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    elif kind == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")
    for name, part in (schema.get("properties") or {}).items():
        yield from _check_field(part, f"{path}.properties[{name}]", "object fields")
    if isinstance(schema.get("items"), dict):
        yield from _check_field(schema["items"], f"{path}.items", "array items")
    if isinstance(schema.get("additionalProperties"), dict):
        where = f"{path}.additionalProperties"
        yield from _check_field(schema["additionalProperties"], where, "object fields")


def _check_field(schema: Raw, path: str, place: str) -> Causes:
    free = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not any(schema.get(word) for word in free):
        yield required(f"{path}.type", f"must not be empty for specified {place}")
    yield from _check_node(schema, path)


def _check_pattern(pattern: str, path: str) -> Causes:
    try:
        compile_pattern(pattern)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        detail = f"must be a valid regular expression, but isn't: error parsing regexp: {why}"
        yield invalid_value(path, pattern, detail)


def _check_default(schema: Raw, path: str) -> Causes:
    # A default that does not fit would make every object that lacks the field invalid.
    for cause in structural.check(schema["default"], Schema(schema)):
        yield cause._replace(field=f"{path}{cause.field and '.' + cause.field}")


_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_OR_LISTS, _OR_BOOLEANS = ("items",), ("additionalItems", "additionalProperties")


def check_nested_types(value: Any, schema: Schema, path: str = "") -> Causes:
    """The causes for wrong types below; fields that no schema knows are removed, in place."""
    props = schemas.by_name(_PROPS)
    for part, known, where, key in structural.children(value, schema, path):
        if schema.properties is not props.properties or key not in (*_OR_LISTS, *_OR_BOOLEANS):
            if isinstance(part, dict | list):
                yield from check_nested_types(part, known, where)
            continue
        if key in _OR_BOOLEANS and not isinstance(part, bool | dict):
            detail = (
                f'{where} in body must be a schema or a boolean: "{structural.type_word(part)}"'
            )
            yield invalid_type(where, structural.type_word(part), detail)
        for inner in part if isinstance(part, list) else [part]:
            if isinstance(inner, dict):
                structural.prune(inner, props, where)
                yield from structural.check(inner, props, where, integral_floats=False)
                yield from check_nested_types(inner, props, where)
