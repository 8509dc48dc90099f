"""Server-side apply: what an owner states, laid over what there is.

Pure: object and statement in, new object out; neither is changed. Called by `verbs.py`. The schema
says what is merged: maps are, unless they are atomic; lists are only where their items are known
by keys, or are a set. Owners are not kept apart, so nothing is taken away that is no longer stated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.api_errors import bad_request, invalid, required

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.api.schemas import Schema
    from muster.local.apiserver.http.requests import Call

Key = tuple[str, ...]


APPLY_MEDIA_TYPE = "application/apply-patch+yaml"


def check_apply(call: Call, body: Raw) -> None:
    """Somebody must state it, and of what kind it is."""
    if not call.query.get("fieldManager"):
        cause = required("fieldManager", "is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    if not body.get("apiVersion") or not body.get("kind"):
        raise bad_request("apiVersion and kind must be set in an applied object")


def apply(target: Any, stated: Any, schema: Schema | None) -> Any:
    """The value with everything that is stated."""
    raw = schema.raw if schema else {}
    if isinstance(stated, dict):
        if raw.get("x-kubernetes-map-type") == "atomic":
            return stated
        result = dict(target) if isinstance(target, dict) else {}
        for name, value in stated.items():
            result[name] = apply(result.get(name), value, schema.field(name) if schema else None)
            if value is None:
                del result[name]
        return result
    if isinstance(stated, list) and schema and raw.get("x-kubernetes-list-type") in ("map", "set"):
        return _merged(target if isinstance(target, list) else [], stated, schema)
    return stated


def _merged(target: list[Any], stated: list[Any], schema: Schema) -> list[Any]:
    """Items in the order they are stated; the others keep to their places between them."""
    had = [(_key(item, schema), item) for item in target]
    wanted = {_key(item, schema): item for item in stated}
    if len(wanted) < len(stated):
        raise bad_request("failed to create typed patch object: an item of a list comes twice")
    known, order = dict(reversed(had)), list(wanted)
    shared = [i for i, key in enumerate(order) if key in known]
    result: list[Any] = []
    done = met = 0

    def take(upto: int) -> int:
        items = schema.items()
        result.extend(apply(known.get(key), wanted[key], items) for key in order[done:upto])
        return upto

    for key, item in had:
        if key not in wanted:
            result.append(item)
        elif met < len(shared) and key == order[shared[met]]:
            done = take(shared[met] + 1)
            met += 1
    take(len(order))
    return result


def _key(item: Any, schema: Schema) -> Key:
    """What an item is known by: its keys, or itself."""
    keys = schema.raw.get("x-kubernetes-list-map-keys") or ()
    if not keys:
        return (repr(item),)
    items = schema.items()
    if not isinstance(item, dict) or items is None:
        raise bad_request("failed to create typed patch object: an item of a list is no object")
    found = [item.get(key, items.properties.get(key, {}).get("default")) for key in keys]
    if None in found:
        raise bad_request(
            "failed to create typed patch object: associative list with keys has an element that"
            f" omits key field {keys[found.index(None)]!r} (and doesn't have default value)"
        )
    return tuple(map(repr, found))
