"""Objects against their schemas: unknown fields are removed, defaults filled in, the rest checked.

Each function walks object and schema together. Messages have the wording of the real server.

Ratcheting: an update is judged only by the values it changes. A value that is equal to the old one
is not checked again, even if its schema has become stricter since. Items of a list have an old
value only if the schema names the keys that identify them.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit import schemas
from kubekit.objects.quantity import InvalidQuantity, parse_quantity
from kubekit.schemas import Schema
from localkube.apiserver import causes
from localkube.apiserver.causes import Cause
from localkube.apiserver.schema import values
from localkube.apiserver.schema.values import check_value, join_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw


ABSENT = object()
"""The old value of a new field."""

_encoder = msgspec.json.Encoder(order="sorted")


def _old_value(key: str | int, part: Any, old: Any, raw: Raw) -> Any:
    """The old value of `part`, which is under `key` of a value with this schema."""
    if isinstance(key, str):
        return old.get(key, ABSENT) if isinstance(old, dict) else ABSENT
    keys = raw.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(part, dict):
        return ABSENT
    identity = [part.get(name) for name in keys]
    same = (o for o in old if isinstance(o, dict) and [o.get(name) for name in keys] == identity)
    return next(same, ABSENT)


_COMBINATORS = {"allOf", "anyOf", "oneOf", "not"}
_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")
METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY_RULE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


Child = tuple[Any, Schema, str, str | int]


def children(value: Any, schema: Schema, path: str = "") -> Iterator[Child]:
    """The parts of a value that the schema declares, with their schemas, paths and keys."""
    if isinstance(value, dict):
        for name, part in value.items():
            field = schema.field(name)
            if field is not None:
                yield part, field, join_path(path, name), name
    elif isinstance(value, list):
        items = schema.items()
        if items is not None:
            for i, part in enumerate(value):
                yield part, items, f"{path}[{i}]", i


def prune(value: Any, schema: Schema, path: str = "", *, top: bool = False) -> list[str]:
    """Remove, in place, unknown fields and nulls; returns the unknown paths, outer ones first."""
    if not isinstance(value, dict):
        return [
            unknown
            for part, part_schema, part_path, _ in children(value, schema, path)
            if isinstance(part, dict | list)
            for unknown in prune(part, part_schema, part_path)
        ]
    embedded = bool(schema.raw.get("x-kubernetes-embedded-resource"))
    # CRDs need not declare the fields that every object has.
    implied = _OF_EVERY_OBJECT if top or embedded else ()
    open_map = not schema.properties and schema.raw.get("additionalProperties") is not None
    keeps_all = not schema.type or schema.preserves or open_map
    outer: list[str] = []
    inner: list[str] = []
    for name, part in list(value.items()):
        field = schema.field(name)
        if field is None:
            if not keeps_all and name not in implied:
                outer.append(join_path(path, name))
                del value[name]
        elif part is None:
            # A null that is not allowed counts as no value, so that a default can be filled in.
            if not field.raw.get("nullable"):
                del value[name]
        elif isinstance(part, dict | list):
            inner += prune(part, field, join_path(path, name))
    if embedded and isinstance(value.get("metadata"), dict):
        outer += prune(value["metadata"], schemas.by_name(METADATA), join_path(path, "metadata"))
    return outer + inner


def is_clean(value: Any, schema: Schema) -> bool:
    """Whether `prune` finds nothing to remove and `check` no wrong type in an object of Go.

    One quick walk that most writes pass. False only means that the two must look closer.
    """
    kind = type(value)
    if kind is str:
        return schema.accepts_any_text or _is_right_scalar(value, schema)
    if kind is dict and schema.plain_type is dict:
        for name, part in value.items():
            field = schema.field(name)
            if field is None or not is_clean(part, field):
                return False
        return True
    if kind is list and schema.plain_type is list:
        items = schema.items()
        return items is not None and all(is_clean(part, items) for part in value)
    if kind is int and not _is_int32(value):
        return False  # `check` knows how large it may be
    return kind is schema.plain_type or _is_right_scalar(value, schema)


def _is_right_scalar(value: Any, schema: Schema) -> bool:
    if value is None or isinstance(value, dict | list) or schema.type in ("object", "array"):
        return False
    # As in `check`, `oneOf` is not a rule without a type: quantities have it, and ports.
    rules = _COMBINATORS if schema.type else _COMBINATORS - {"oneOf"}
    ruled = not rules.isdisjoint(schema.raw)
    return not ruled and _check_type(value, schema, "", integral_floats=False) is None


def fill_defaults(value: Any, schema: Schema) -> None:
    """Write the schema's defaults into missing fields, in place."""
    if not schema.has_defaults:
        return
    if isinstance(value, dict):
        for name, declared in schema.properties.items():
            missing = name not in value or (value[name] is None and not declared.get("nullable"))
            if "default" in declared and missing:
                value[name] = deepcopy(declared["default"])
    for part, part_schema, _, _ in children(value, schema):
        if isinstance(part, dict | list):
            fill_defaults(part, part_schema)


def check(
    value: Any, schema: Schema, path: str = "", *, integral_floats: bool = True, old: Any = ABSENT
) -> list[Cause]:
    """The causes for an invalid value; with `integral_floats`, 5.0 is an integer.

    Values that are the same in `old` are not checked: after a schema became stricter, users must
    still be able to change and delete their objects.
    """
    # Most values are plain text: testing for it first makes every write faster.
    if schema.accepts_any_text and isinstance(value, str):
        return []
    # The bytes too, because True == 1 in Python; `==` first, because it is much faster.
    if old is not ABSENT and value == old and _encoder.encode(value) == _encoder.encode(old):
        return []
    wrong_type = _check_type(value, schema, path, integral_floats)
    if wrong_type is not None:
        return [wrong_type]
    causes = check_value(value, schema.raw, path)
    if not _COMBINATORS.isdisjoint(schema.raw):
        causes += _check_alternatives(value, schema, path)
    for part, part_schema, part_path, key in children(value, schema, path):
        before = ABSENT if old is ABSENT else _old_value(key, part, old, schema.raw)
        causes += check(part, part_schema, part_path, integral_floats=integral_floats, old=before)
    return causes


def _check_alternatives(value: Any, schema: Schema, path: str) -> list[Cause]:
    """The causes of allOf, anyOf, oneOf and not."""
    causes: list[Cause] = []
    for alternative in _alternatives(schema, "allOf"):
        causes += check(value, alternative, path)
    if any_of := _alternatives(schema, "anyOf"):
        failures = [check(value, alternative, path) for alternative in any_of]
        if all(failures):
            causes += [_against(path, "must validate at least one schema (anyOf)"), *failures[0]]
    if schema.type and (one_of := _alternatives(schema, "oneOf")):
        failures = [check(value, alternative, path) for alternative in one_of]
        fitting = failures.count([])
        rule = "must validate one and only one schema (oneOf). Found"
        if fitting > 1:
            causes.append(_against(path, f"{rule} {fitting} valid alternatives"))
        elif not fitting:
            causes += [_against(path, f"{rule} none valid"), *failures[0]]
    for alternative in _alternatives(schema, "not"):
        if not check(value, alternative, path):
            causes.append(_against(path, "must not validate the schema (not)"))
    return causes


def _alternatives(schema: Schema, word: str) -> list[Schema]:
    declared = schema.raw.get(word) or []
    return [Schema(raw) for raw in (declared if isinstance(declared, list) else [declared])]


def _against(path: str, rule: str) -> Cause:
    return Cause("<nil>", "FieldValueInvalid", f'Invalid value: "": "{path}" {rule}')


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
    """The real server's name for the type of a value."""
    return "null" if value is None else _WORDS.get(type(value), "number")


def _check_type(value: Any, schema: Schema, path: str, integral_floats: bool) -> Cause | None:
    raw = schema.raw
    if raw.get("x-kubernetes-int-or-string") or raw.get("format") == "int-or-string":
        if not isinstance(value, int | str) or isinstance(value, bool):
            return _mistyped(path, value, "integer,string")
        # The format is that of built-in kinds; it is a Go type with an int32.
        if isinstance(value, int) and raw.get("format") == "int-or-string" and not _is_int32(value):
            return causes.mistyped(path, value, f"{path} in body must fit into int32")
        return None
    if is_quantity(schema):
        return _check_quantity(value, path)
    if not schema.type or (value is None and raw.get("nullable")):
        return None
    # Built-in kinds, without `integral_floats`, are decoded into Go types, which know fewer formats
    # and do not accept 5.0 as an integer.
    formed = values.matches_format if integral_floats else values.decodes_as
    is_text = schema.type == "string" and isinstance(value, str)
    if is_text and not formed(value, raw.get("format", "")):
        rule = f'{path} in body must be of type {raw["format"]}: "{value}"'
        return causes.mistyped(path, value, rule)
    if isinstance(value, bool):  # it is an int in Python
        fits = schema.type == "boolean"
    elif isinstance(value, float) and schema.type == "integer":
        fits = integral_floats and value.is_integer()
    else:
        fits = isinstance(value, _TYPES.get(schema.type, ()))
    return None if fits else _mistyped(path, value, schema.type)


def _is_int32(value: int) -> bool:
    """Whether a number fits into the smallest integer of Kubernetes' types."""
    return -(2**31) <= value < 2**31


def is_quantity(schema: Schema) -> bool:
    """Whether values are quantities: published as text or number, without a type."""
    raw = schema.raw
    return "oneOf" in raw and not schema.type and raw.get("format") != "int-or-string"


def _check_quantity(value: Any, path: str) -> Cause | None:
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        return _mistyped(path, value, "string")
    try:
        parse_quantity(value)
    except InvalidQuantity:
        return causes.mistyped(path, str(value), _QUANTITY_RULE)
    return None


def _mistyped(path: str, value: Any, expected: str) -> Cause:
    word = type_word(value)
    return causes.mistyped(path, word, f'{path} in body must be of type {expected}: "{word}"')


def reshape(obj: Raw, schema: Schema) -> Raw:
    """Prune an object by a schema and fill in its defaults, in place."""
    prune(obj, schema, top=True)
    fill_defaults(obj, schema)
    return obj
