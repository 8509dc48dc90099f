"""How what is missing is filled in: never over what somebody wrote.

Pure; used by `defaults.py` and its neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.api.meta import Raw


def fill(obj: Raw, **values: Any) -> Raw:
    """Set what is missing (null, or without a word) and return the same object."""
    for name, value in values.items():
        if obj.get(name) in (None, ""):
            obj[name] = value
    return obj


def fill_zeros(obj: Raw, **values: Any) -> Raw:
    """The same where a zero, too, says nothing."""
    for name, value in values.items():
        obj[name] = obj.get(name) or value
    return obj


def part(obj: Raw, name: str) -> Raw:
    """The map under `name`, made if missing; a wrong type is left for validation to report."""
    if obj.get(name) is None:
        obj[name] = {}
    found = obj[name]
    return found if isinstance(found, dict) else {}


def maps(value: Any) -> list[Raw]:
    """The maps in a list, or nothing; the rest is left for validation to report."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
