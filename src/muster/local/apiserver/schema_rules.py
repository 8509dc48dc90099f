"""What a schema says about one value besides its type: words, lengths, counts, spans.

Pure; called by `structural.py` for every value. Worded as the real server words it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import re2

from muster.local.apiserver.status import (
    Cause,
    bad_type,
    bad_value,
    duplicate,
    not_supported,
    required,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw


def check_rules(value: Any, raw: Raw, path: str) -> list[Cause]:
    """What is wrong with a value of the right type."""
    causes = []
    if "enum" in raw and value not in raw["enum"]:
        causes.append(not_supported(path, value, [str(v) for v in raw["enum"]]))
    if isinstance(value, dict):
        causes += _check_map(value, raw, path)
    elif isinstance(value, str):
        causes += _check_text(value, raw, path)
    elif isinstance(value, list):
        causes += _check_count(value, raw, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes += _check_number(value, raw, path)
    return causes


def join(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name


def _check_map(value: Raw, raw: Raw, path: str) -> Iterator[Cause]:
    needed = list(raw.get("required", ()))
    if raw.get("x-kubernetes-embedded-resource"):
        needed += [name for name in ("apiVersion", "kind") if name not in needed]
    yield from (required(join(path, name)) for name in needed if name not in value)
    if "maxProperties" in raw and len(value) > raw["maxProperties"]:
        yield _too_many(path, len(value), raw["maxProperties"])
    if len(value) < raw.get("minProperties", 0):
        detail = f"{path} in body should have at least {raw['minProperties']} properties"
        yield bad_value(path, len(value), detail)


def _too_many(path: str, found: int, most: int) -> Cause:
    told = f"Too many: {found}: must have at most {most} item{'' if most == 1 else 's'}"
    return Cause(path, "FieldValueTooMany", told)


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
    """Whether the pattern is found. RE2 means what Go means, and takes no time to think."""
    try:
        return compiled(pattern).search(value) is not None
    except re2.error:
        return True  # a definition from before such patterns were refused


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re2._Regexp:
    """The pattern, or re2.error."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _check_count(value: list[Any], raw: Raw, path: str) -> list[Cause]:
    causes = []
    if "maxItems" in raw and len(value) > raw["maxItems"]:
        causes.append(_too_many(path, len(value), raw["maxItems"]))
    if len(value) < raw.get("minItems", 0):
        detail = f"{path} in body should have at least {raw['minItems']} items"
        causes.append(bad_value(path, len(value), detail))
    return [*causes, *_check_unique(value, raw, path)]


def _check_unique(value: list[Any], raw: Raw, path: str) -> Iterator[Cause]:
    """Sets have every item once, maps every key."""
    kind = raw.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    keys = raw.get("x-kubernetes-list-map-keys") or ()
    seen: list[Any] = []
    for i, item in enumerate(value):
        known = {k: item.get(k) for k in keys if k in item} if isinstance(item, dict) else item
        what = known if kind == "map" else item
        if what in seen:
            yield duplicate(f"{path}[{i}]", what)
        seen.append(what)


def _check_number(value: float, raw: Raw, path: str) -> list[Cause]:
    causes = []
    low, high = raw.get("minimum"), raw.get("maximum")
    if low is not None and (value < low or (raw.get("exclusiveMinimum") and value == low)):
        word = "greater than" if raw.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(bad_value(path, value, f"{path} in body should be {word} {low}"))
    if high is not None and (value > high or (raw.get("exclusiveMaximum") and value == high)):
        word = "less than" if raw.get("exclusiveMaximum") else "less than or equal to"
        causes.append(bad_value(path, value, f"{path} in body should be {word} {high}"))
    factor = raw.get("multipleOf")
    if factor and value % factor:
        causes.append(bad_value(path, value, f"{path} in body should be a multiple of {factor}"))
    span = {"int32": 2**31, "int64": 2**63}.get(raw.get("format", ""))
    if span is not None and not -span <= value < span:
        causes.append(bad_type(path, value, f"{path} in body must fit into {raw['format']}"))
    return causes
