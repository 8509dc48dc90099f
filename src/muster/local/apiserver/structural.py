"""Objects against their schemas: unknown fields out, defaults in, everything else checked.

Pure; called by `verbs.py` on every write, for built-in kinds and CRDs alike. Each function walks
object and schema together. Messages are those of the real server, so that a person who searches
for one finds an answer.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from muster.errors import InvalidQuantity
from muster.local.apiserver.quota.amounts import parse
from muster.local.apiserver.status import Cause, bad_type, bad_value, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.api.schemas import Schema

_NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def children(value: Any, schema: Schema, path: str = "") -> Iterator[tuple[Any, Schema, str]]:
    """The parts of a value that the schema knows, with their schemas and paths."""
    if isinstance(value, dict):
        for name, part in value.items():
            known = schema.field(name)
            if known is not None:
                yield part, known, _join(path, name)
    elif isinstance(value, list):
        items = schema.items()
        if items is not None:
            for i, part in enumerate(value):
                yield part, items, f"{path}[{i}]"


def prune(value: Any, schema: Schema, path: str = "", *, top: bool = False) -> list[str]:
    """Take out, in place, what the schema does not know, and nulls; returns the unknown paths."""
    unknown: list[str] = []
    if isinstance(value, dict):
        for name in list(value):
            known = schema.field(name)
            implied = top and name in ("apiVersion", "kind", "metadata")
            if known is None and schema.type and not schema.preserves and not implied:
                if schema.properties or schema.raw.get("additionalProperties") is None:
                    unknown.append(_join(path, name))
                    del value[name]
            elif value[name] is None and known is not None and not known.raw.get("nullable"):
                del value[name]
    for part, known, where in children(value, schema, path):
        unknown += prune(part, known, where)
    return unknown


def fill_defaults(value: Any, schema: Schema) -> None:
    """Write the schema's defaults, in place, where nothing is written."""
    if isinstance(value, dict):
        for name, declared in schema.properties.items():
            if "default" in declared and value.get(name) is None:
                value[name] = deepcopy(declared["default"])
    for part, known, _ in children(value, schema):
        fill_defaults(part, known)


def check(value: Any, schema: Schema, path: str = "") -> list[Cause]:
    """What is wrong with the value."""
    wrong = _check_type(value, schema, path)
    if wrong is not None:
        return [wrong]
    causes = _check_rules(value, schema.raw, path)
    for part, known, where in children(value, schema, path):
        causes += check(part, known, where)
    return causes


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_WORDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}


def type_word(value: Any) -> str:
    """How the real server calls the type of a value."""
    return "null" if value is None else _WORDS.get(type(value), "number")


def _check_type(value: Any, schema: Schema, path: str) -> Cause | None:
    raw = schema.raw
    if raw.get("x-kubernetes-int-or-string") or raw.get("format") == "int-or-string":
        fits = isinstance(value, int | str) and not isinstance(value, bool)
        return None if fits else _mistyped(path, value, "integer,string")
    if is_quantity(schema):
        return _check_quantity(value, path)
    if not schema.type or (value is None and raw.get("nullable")):
        return None
    fits = isinstance(value, _TYPES[schema.type])
    if isinstance(value, bool) and schema.type != "boolean":
        fits = False
    if isinstance(value, float) and schema.type == "integer" and value.is_integer():
        fits = True
    return None if fits else _mistyped(path, value, schema.type)


def is_quantity(schema: Schema) -> bool:
    """Whether a quantity may stand here: that is published as text or a number, without a type."""
    raw = schema.raw
    return "oneOf" in raw and not schema.type and raw.get("format") != "int-or-string"


def _check_quantity(value: Any, path: str) -> Cause | None:
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        return _mistyped(path, value, "string")
    try:
        parse(value)
    except InvalidQuantity:
        return bad_type(path, str(value), _NO_QUANTITY)
    return None


def _mistyped(path: str, value: Any, wanted: str) -> Cause:
    word = type_word(value)
    return bad_type(path, word, f'{path} in body must be of type {wanted}: "{word}"')


def reshape(obj: Raw, schema: Schema) -> Raw:
    """An object, in place, as this schema would have let it in: pruned, and with its defaults."""
    prune(obj, schema, top=True)
    fill_defaults(obj, schema)
    return obj


def _check_rules(value: Any, raw: Raw, path: str) -> list[Cause]:
    causes = []
    if "enum" in raw and value not in raw["enum"]:
        causes.append(not_supported(path, value, [str(v) for v in raw["enum"]]))
    if isinstance(value, dict):
        causes += [
            required(_join(path, name)) for name in raw.get("required", ()) if name not in value
        ]
    elif isinstance(value, str):
        causes += _check_text(value, raw, path)
    elif isinstance(value, list):
        causes += _check_count(value, raw, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes += _check_number(value, raw, path)
    return causes


def _check_text(value: str, raw: Raw, path: str) -> list[Cause]:
    causes = []
    if "maxLength" in raw and len(value) > raw["maxLength"]:
        told = f"Too long: may not be more than {raw['maxLength']} bytes"
        causes.append(Cause(path, "FieldValueTooLong", told))
    elif len(value) < raw.get("minLength", 0):
        detail = f"{path} in body should be at least {raw['minLength']} chars long"
        causes.append(bad_value(path, value, detail))
    elif "pattern" in raw and not _search(raw["pattern"], value):
        causes.append(bad_value(path, value, f"{path} in body should match '{raw['pattern']}'"))
    return causes


def _search(pattern: str, value: str) -> bool:
    """Whether the pattern is found; one that Python cannot read lets everything pass."""
    try:
        return re.search(pattern, value) is not None
    except re.error:
        return True


def _check_count(value: list[Any], raw: Raw, path: str) -> list[Cause]:
    causes = []
    if "maxItems" in raw and len(value) > raw["maxItems"]:
        told = f"Too many: {len(value)}: must have at most {raw['maxItems']} items"
        causes.append(Cause(path, "FieldValueTooMany", told))
    if len(value) < raw.get("minItems", 0):
        detail = f"{path} in body should have at least {raw['minItems']} items"
        causes.append(bad_value(path, len(value), detail))
    return causes


def _check_number(value: float, raw: Raw, path: str) -> list[Cause]:
    causes = []
    low, high = raw.get("minimum"), raw.get("maximum")
    if low is not None and (value < low or (raw.get("exclusiveMinimum") and value == low)):
        word = "greater than" if raw.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(bad_value(path, value, f"{path} in body should be {word} {low}"))
    if high is not None and (value > high or (raw.get("exclusiveMaximum") and value == high)):
        word = "less than" if raw.get("exclusiveMaximum") else "less than or equal to"
        causes.append(bad_value(path, value, f"{path} in body should be {word} {high}"))
    span = {"int32": 2**31, "int64": 2**63}.get(raw.get("format", ""))
    if span is not None and not -span <= value < span:
        causes.append(bad_type(path, value, f"{path} in body must fit into {raw['format']}"))
    return causes
