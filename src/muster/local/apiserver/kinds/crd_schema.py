"""What a custom kind's schema may not be: every field has a type, every pattern can be read.

Pure; called by `definitions.py`.

Schemas within the schema of a definition, where what is published does not tell their type.

Pure; called by `screening.py`. A schema's `items` and `additionalProperties` are schemas or
something else, and published without any type, so they are walked into from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import re2

from muster.api import schemas
from muster.api.schemas import Schema
from muster.local.apiserver import api_errors
from muster.local.apiserver.api_errors import invalid_type
from muster.local.apiserver.schema import structural
from muster.local.apiserver.schema.values import compile_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def check_schema(schema: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with the schema of a version."""
    if not schema.get("type"):
        yield api_errors.required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield api_errors.invalid_value(f"{path}.type", schema["type"], "must be object at the root")
    else:
        yield from _node(schema, path)


def _node(schema: Raw, path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield api_errors.not_supported(f"{path}.type", kind, _TYPES)
        return
    if "pattern" in schema:
        yield from _pattern(schema["pattern"], f"{path}.pattern")
    if "default" in schema:
        yield from _default(schema, f"{path}.default")
    if isinstance(schema.get("items"), list):
        told = "items must be a schema object and not an array"
        yield api_errors.forbidden_field(f"{path}.items", told)
    elif kind == "array" and not isinstance(schema.get("items"), dict):
        yield api_errors.required(f"{path}.items", "must be specified")
    for name, part in (schema.get("properties") or {}).items():
        yield from _field(part, f"{path}.properties[{name}]", "object fields")
    if isinstance(schema.get("items"), dict):
        yield from _field(schema["items"], f"{path}.items", "array items")
    if isinstance(schema.get("additionalProperties"), dict):
        place = f"{path}.additionalProperties"
        yield from _field(schema["additionalProperties"], place, "object fields")


def _field(schema: Raw, path: str, what: str) -> Iterator[Cause]:
    free = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not any(schema.get(word) for word in free):
        yield api_errors.required(f"{path}.type", f"must not be empty for specified {what}")
    yield from _node(schema, path)


def _pattern(pattern: str, path: str) -> Iterator[Cause]:
    try:
        compile_pattern(pattern)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        told = f"must be a valid regular expression, but isn't: error parsing regexp: {why}"
        yield api_errors.invalid_value(path, pattern, told)


def _default(schema: Raw, path: str) -> Iterator[Cause]:
    for cause in structural.check(schema["default"], Schema(schema)):
        yield cause._replace(field=f"{path}{cause.field and '.' + cause.field}")


_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_OR_LISTS, _OR_BOOLEANS = ("items",), ("additionalItems", "additionalProperties")


def check_nested_types(value: Any, schema: Schema, path: str = "") -> Iterator[Cause]:
    """What is wrong with the types below; what no schema knows is taken out, in place."""
    props = schemas.by_name(_PROPS)
    for part, known, where, key in structural.children(value, schema, path):
        if schema.properties is not props.properties or key not in (*_OR_LISTS, *_OR_BOOLEANS):
            yield from check_nested_types(part, known, where)
            continue
        if key in _OR_BOOLEANS and not isinstance(part, bool | dict):
            told = f'{where} in body must be a schema or a boolean: "{structural.type_word(part)}"'
            yield invalid_type(where, structural.type_word(part), told)
        for inner in part if isinstance(part, list) else [part]:
            if isinstance(inner, dict):
                structural.prune(inner, props, where)
                yield from structural.check(inner, props, where, points=False)
                yield from check_nested_types(inner, props, where)
