"""Times and durations inside of objects.

The library converts a time only where a variable is declared as one, not inside of an object whose
fields have no types. So the times of an object are passed in a list of their own, and the
expression gets a first part that puts the object together again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMES, DURATIONS, RAW = "times__", "durations__", "raw__"
"""The variables with all times, with all durations, and with the values without them."""


def has_times(value: Any) -> bool:
    """Whether there is a time or a duration in a value."""
    if isinstance(value, dict):
        return any(has_times(part) for part in value.values())
    if isinstance(value, list):
        return any(has_times(part) for part in value)
    return isinstance(value, datetime | timedelta)


def separate(expression: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The expression and its values, without times inside of objects."""
    found: dict[str, list[Any]] = {TIMES: [], DURATIONS: []}
    raw: dict[str, Any] = {}
    for name, value in values.items():
        if has_times(value):
            source = _source(value, f"{RAW}.{name}", found)
            expression = f"cel.bind({name}, {source}, (\n{expression}\n))"
            raw[name] = _without(value)
    rest = {name: value for name, value in values.items() if name not in raw}
    return expression, {**rest, RAW: raw, **found}


def _source(value: Any, path: str, found: dict[str, list[Any]]) -> str:
    """An expression for a value."""
    if isinstance(value, datetime | timedelta):
        name = TIMES if isinstance(value, datetime) else DURATIONS
        found[name].append(value)
        return f"{name}[{len(found[name]) - 1}]"
    if not has_times(value):
        return path
    if isinstance(value, list):
        parts = (_source(part, f"{path}[{i}]", found) for i, part in enumerate(value))
        return f"[{', '.join(parts)}]"
    keys = {key: _quoted(key) for key in value}
    rows = (f"{keys[k]}: {_source(part, f'{path}[{keys[k]}]', found)}" for k, part in value.items())
    return f"{{{', '.join(rows)}}}"


def _quoted(key: str) -> str:
    escaped = "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in str(key))
    return f"'{escaped}'"


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without(part) for part in value]
    return None if isinstance(value, datetime | timedelta) else value
