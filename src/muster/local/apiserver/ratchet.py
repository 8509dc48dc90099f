"""What stood where before: so that a change is judged by what it changes.

Pure; used by `structural.py`. A value that stands as it stood is not looked at again, even if its
schema has grown stricter since. Items of lists have a place only where the schema says by which
keys they are known; elsewhere a list is unchanged as a whole or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from muster.api.meta import Raw

NOTHING = object()
"""There was nothing before."""

_encoder = msgspec.json.Encoder(order="sorted")


def unchanged(value: Any, old: Any) -> bool:
    """Whether a value stands as it stood. To Python, though not here, true is 1."""
    return old is not NOTHING and value == old and _encoder.encode(value) == _encoder.encode(old)


def former(key: str | int, part: Any, old: Any, raw: Raw) -> Any:
    """What stood in the place of `part`, which is under `key` of a value with this schema."""
    if isinstance(key, str):
        return old.get(key, NOTHING) if isinstance(old, dict) else NOTHING
    keys = raw.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(part, dict):
        return NOTHING
    known = [part.get(name) for name in keys]
    same = (o for o in old if isinstance(o, dict) and [o.get(name) for name in keys] == known)
    return next(same, NOTHING)
