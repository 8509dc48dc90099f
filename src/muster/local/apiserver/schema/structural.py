"""Objects against their schemas: unknown fields out, defaults in, everything else checked.

Pure; called by `verbs.py` on every write, for built-in kinds and CRDs alike. Each function walks
object and schema together. Messages are those of the real server, so that a person who searches
for one finds an answer.

What stood where before: so that a change is judged by what it changes.

Pure; used by `structural.py`. A value that stands as it stood is not looked at again, even if its
schema has grown stricter since. Items of lists have a place only where the schema says by which
keys they are known; elsewhere a list is unchanged as a whole or not at all.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec

from muster.api import schemas
from muster.api.quantity import parse_quantity
from muster.api.schemas import Schema
from muster.errors import InvalidQuantity
from muster.local.apiserver.api_errors import Cause, invalid_type
from muster.local.apiserver.schema import values
from muster.local.apiserver.schema.values import check_value, join_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw


ABSENT = object()
"""There was nothing before."""

_encoder = msgspec.json.Encoder(order="sorted")


def unchanged(value: Any, old: Any) -> bool:
    """Whether a value stands as it stood. To Python, though not here, true is 1."""
    return old is not ABSENT and value == old and _encoder.encode(value) == _encoder.encode(old)


def old_value(key: str | int, part: Any, old: Any, raw: Raw) -> Any:
    """What stood in the place of `part`, which is under `key` of a value with this schema."""
    if isinstance(key, str):
        return old.get(key, ABSENT) if isinstance(old, dict) else ABSENT
    keys = raw.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(part, dict):
        return ABSENT
    known = [part.get(name) for name in keys]
    same = (o for o in old if isinstance(o, dict) and [o.get(name) for name in keys] == known)
    return next(same, ABSENT)


_WORDS_OF_CHOICE = {"allOf", "anyOf", "oneOf", "not"}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


Child = tuple[Any, Schema, str, str | int]


def children(value: Any, schema: Schema, path: str = "") -> Iterator[Child]:
    """The parts of a value that the schema knows, with their schemas, paths and keys."""
    if isinstance(value, dict):
        for name, part in value.items():
            known = schema.field(name)
            if known is not None:
                yield part, known, join_path(path, name), name
    elif isinstance(value, list):
        items = schema.items()
        if items is not None:
            for i, part in enumerate(value):
                yield part, items, f"{path}[{i}]", i


def prune(value: Any, schema: Schema, path: str = "", *, top: bool = False) -> list[str]:
    """Take out, in place, what the schema does not know, and nulls; returns the unknown paths."""
    unknown: list[str] = []
    embedded = bool(schema.raw.get("x-kubernetes-embedded-resource"))
    if isinstance(value, dict):
        for name in list(value):
            known = schema.field(name)
            implied = (top or embedded) and name in ("apiVersion", "kind", "metadata")
            if known is None and schema.type and not schema.preserves and not implied:
                if schema.properties or schema.raw.get("additionalProperties") is None:
                    unknown.append(join_path(path, name))
                    del value[name]
            elif value[name] is None and known is not None and not known.raw.get("nullable"):
                del value[name]
    if embedded and isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        unknown += prune(value["metadata"], schemas.by_name(_META), join_path(path, "metadata"))
    for part, known, where, _ in children(value, schema, path):
        unknown += prune(part, known, where)
    return unknown


def fill_defaults(value: Any, schema: Schema) -> None:
    """Write the schema's defaults, in place, where nothing is written."""
    if isinstance(value, dict):
        for name, declared in schema.properties.items():
            nothing = name not in value or (value[name] is None and not declared.get("nullable"))
            if "default" in declared and nothing:
                value[name] = deepcopy(declared["default"])
    for part, known, _, _ in children(value, schema):
        fill_defaults(part, known)


def check(
    value: Any, schema: Schema, path: str = "", *, points: bool = True, old: Any = ABSENT
) -> list[Cause]:
    """What is wrong with the value; `points` if whole numbers may be written with one, as 5.0.

    What stands as it stood in the `old` value is not looked at: a schema that grew stricter must
    not keep people from changing, or getting rid of, what they have.
    """
    if unchanged(value, old):
        return []
    wrong = _check_type(value, schema, path, points)
    if wrong is not None:
        return [wrong]
    causes = check_value(value, schema.raw, path) + _check_alternatives(value, schema, path)
    for part, known, where, key in children(value, schema, path):
        before = ABSENT if old is ABSENT else old_value(key, part, old, schema.raw)
        causes += check(part, known, where, points=points, old=before)
    return causes


def _check_alternatives(value: Any, schema: Schema, path: str) -> list[Cause]:
    """What a schema says in other schemas: all of these, one of these, none of this."""
    causes: list[Cause] = []
    if not _WORDS_OF_CHOICE & schema.raw.keys():
        return causes
    for other in _alternatives(schema, "allOf"):
        causes += check(value, other, path)
    if any_of := _alternatives(schema, "anyOf"):
        wrong = [check(value, other, path) for other in any_of]
        if all(wrong):
            causes += [_against(path, "must validate at least one schema (anyOf)"), *wrong[0]]
    if schema.type and (one_of := _alternatives(schema, "oneOf")):
        wrong = [check(value, other, path) for other in one_of]
        fitting = sum(not found for found in wrong)
        told = "must validate one and only one schema (oneOf). Found"
        if fitting > 1:
            causes.append(_against(path, f"{told} {fitting} valid alternatives"))
        elif not fitting:
            causes += [_against(path, f"{told} none valid"), *wrong[0]]
    for other in _alternatives(schema, "not"):
        if not check(value, other, path):
            causes.append(_against(path, "must not validate the schema (not)"))
    return causes


def _alternatives(schema: Schema, word: str) -> list[Schema]:
    found = schema.raw.get(word) or []
    return [Schema(raw) for raw in (found if isinstance(found, list) else [found])]


def _against(path: str, told: str) -> Cause:
    return Cause("<nil>", "FieldValueInvalid", f'Invalid value: "": "{path}" {told}')


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


def _check_type(value: Any, schema: Schema, path: str, points: bool) -> Cause | None:
    raw = schema.raw
    if raw.get("x-kubernetes-int-or-string") or raw.get("format") == "int-or-string":
        fits = isinstance(value, int | str) and not isinstance(value, bool)
        return None if fits else _mistyped(path, value, "integer,string")
    if is_quantity(schema):
        return _check_quantity(value, path)
    if not schema.type or (value is None and raw.get("nullable")):
        return None
    formed = values.matches_format if points else values.decodes_as
    if (
        schema.type == "string"
        and isinstance(value, str)
        and not formed(value, raw.get("format", ""))
    ):
        return invalid_type(
            path, value, f'{path} in body must be of type {raw["format"]}: "{value}"'
        )
    fits = isinstance(value, _TYPES.get(schema.type, ()))
    if isinstance(value, bool) and schema.type != "boolean":
        fits = False
    if isinstance(value, float) and schema.type == "integer" and points and value.is_integer():
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
        parse_quantity(value)
    except InvalidQuantity:
        return invalid_type(path, str(value), _NO_QUANTITY)
    return None


def _mistyped(path: str, value: Any, wanted: str) -> Cause:
    word = type_word(value)
    return invalid_type(path, word, f'{path} in body must be of type {wanted}: "{word}"')


def reshape(obj: Raw, schema: Schema) -> Raw:
    """An object, in place, as this schema would have let it in: pruned, and with its defaults."""
    prune(obj, schema, top=True)
    fill_defaults(obj, schema)
    return obj
