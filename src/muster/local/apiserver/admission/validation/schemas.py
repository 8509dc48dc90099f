"""What a custom kind's schema may not be: every field has a type, every pattern can be read.

Pure; called by `definitions.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import re2

from muster.api.schemas import Schema
from muster.local.apiserver import status, structural
from muster.local.apiserver.schema_rules import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def check_schema(schema: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with the schema of a version."""
    if not schema.get("type"):
        yield status.required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield status.bad_value(f"{path}.type", schema["type"], "must be object at the root")
    else:
        yield from _node(schema, path)


def _node(schema: Raw, path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield status.not_supported(f"{path}.type", kind, _TYPES)
        return
    if "pattern" in schema:
        yield from _pattern(schema["pattern"], f"{path}.pattern")
    if "default" in schema:
        yield from _default(schema, f"{path}.default")
    if isinstance(schema.get("items"), list):
        told = "items must be a schema object and not an array"
        yield status.forbidden_field(f"{path}.items", told)
    elif kind == "array" and not isinstance(schema.get("items"), dict):
        yield status.required(f"{path}.items", "must be specified")
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
        yield status.required(f"{path}.type", f"must not be empty for specified {what}")
    yield from _node(schema, path)


def _pattern(pattern: str, path: str) -> Iterator[Cause]:
    try:
        compiled(pattern)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        told = f"must be a valid regular expression, but isn't: error parsing regexp: {why}"
        yield status.bad_value(path, pattern, told)


def _default(schema: Raw, path: str) -> Iterator[Cause]:
    for cause in structural.check(schema["default"], Schema(schema)):
        yield cause._replace(field=f"{path}{cause.field and '.' + cause.field}")
