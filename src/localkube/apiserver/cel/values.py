"""Values of objects as expressions see them.

Most values pass as they are. By its schema, a number is always a double, a text may be a time, a
duration or bytes, and a field whose name is no identifier is found under an escaped name.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from localkube.apiserver.cel.escaping import escape

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

_TIMES = ("duration", "date", "date-time")
_FORMATS = ("byte", *_TIMES)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)")
_sorted = msgspec.json.Encoder(order="sorted")


def differs(schema: Raw) -> bool:
    """Whether any value of this schema looks different in an expression."""
    kind = schema.get("type")
    if kind == "number" or (kind == "string" and schema.get("format") in _FORMATS):
        return True
    parts = [schema.get("items"), schema.get("additionalProperties")]
    properties = schema.get("properties") or {}
    if any(escape(name) != name for name in properties):
        return True
    return any(differs(part) for part in (*parts, *properties.values()) if isinstance(part, dict))


def has_times(schema: Raw) -> bool:
    """Whether a value of this schema may have a time or a duration in it."""
    if schema.get("type") == "string" and schema.get("format") in _TIMES:
        return True
    parts = [schema.get("items"), schema.get("additionalProperties")]
    parts += (schema.get("properties") or {}).values()
    return any(has_times(part) for part in parts if isinstance(part, dict))


def convert(value: Any, schema: Raw) -> Any:
    """A value as an expression sees it."""
    if isinstance(value, dict):
        properties: Raw = schema.get("properties") or {}
        others = schema.get("additionalProperties")
        rest = others if isinstance(others, dict) else {}
        return {
            (escape(k) or k) if k in properties else k: convert(v, properties.get(k, rest))
            for k, v in value.items()
        }
    if isinstance(value, list):
        items = schema.get("items")
        return [convert(item, items) for item in value] if isinstance(items, dict) else value
    if schema.get("type") == "number" and isinstance(value, int):
        return float(value)
    if schema.get("type") == "string" and isinstance(value, str):
        return _formatted(value, schema.get("format", ""))
    return value


def _formatted(value: str, format_: str) -> Any:
    if format_ == "byte":
        return base64.b64decode(value)
    if format_ == "duration":
        sign = -1 if value.startswith("-") else 1
        return sign * sum(
            (timedelta(seconds=float(n) * _UNITS[unit]) for n, unit in _DURATION.findall(value)),
            timedelta(),
        )
    if format_ in ("date", "date-time"):
        moment = datetime.fromisoformat(value)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return value


def has_unordered_lists(schema: Raw) -> bool:
    """Whether the order of items has no meaning in a list of this schema."""
    if schema.get("x-kubernetes-list-type") in ("set", "map"):
        return True
    parts = [schema.get("items"), schema.get("additionalProperties")]
    parts += (schema.get("properties") or {}).values()
    return any(has_unordered_lists(part) for part in parts if isinstance(part, dict))


def in_order_of(new: Any, old: Any, schema: Raw) -> Any:
    """The old value with the items of its sets and maps in the order of the new value.

    `self == oldSelf` must not depend on an order that has no meaning.
    """
    if isinstance(new, dict) and isinstance(old, dict):
        properties: Raw = schema.get("properties") or {}
        others = schema.get("additionalProperties")
        rest = others if isinstance(others, dict) else {}
        return {
            k: in_order_of(new[k], v, properties.get(k, rest)) if k in new else v
            for k, v in old.items()
        }
    if isinstance(new, list) and isinstance(old, list):
        return _ordered_list(new, old, schema)
    return old


def _ordered_list(new: list[Any], old: list[Any], schema: Raw) -> list[Any]:
    kind, items = schema.get("x-kubernetes-list-type"), schema.get("items") or {}
    if kind not in ("set", "map"):
        return old
    keys = schema.get("x-kubernetes-list-map-keys") if kind == "map" else None
    places = {identity(item, keys): n for n, item in reversed(list(enumerate(new)))}
    ordered = sorted(old, key=lambda item: places.get(identity(item, keys), len(new)))
    found = ((item, places.get(identity(item, keys))) for item in ordered)
    return [item if at is None else in_order_of(new[at], item, items) for item, at in found]


def identity(item: Any, keys: list[str] | None) -> bytes:
    """What makes an item of a set or of a map the same item."""
    if keys is not None and isinstance(item, dict):
        item = [item.get(key) for key in keys]
    return _sorted.encode(item)
