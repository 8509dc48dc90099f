"""Server-side apply: an applied configuration merged into an object.

Neither the object nor the configuration is changed. By the schema, maps are merged unless they are
atomic, and so are lists whose items have keys or form a set; everything else is replaced. Field
owners are not tracked, so a field that is no longer applied stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.api_errors import bad_request, invalid, required

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.api.schemas import Schema
    from muster.local.apiserver.http.requests import Call

Key = tuple[str, ...]


def check_apply(call: Call, body: Raw) -> None:
    """An apply needs a field manager, a version and a kind."""
    if not call.query.get("fieldManager"):
        cause = required("fieldManager", "is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    if not body.get("apiVersion") or not body.get("kind"):
        raise bad_request("apiVersion and kind must be set in an applied object")


def apply(target: Any, applied: Any, schema: Schema | None) -> Any:
    """The value after the configuration is applied to it."""
    raw = schema.raw if schema else {}
    if isinstance(applied, dict):
        if raw.get("x-kubernetes-map-type") == "atomic":
            return applied
        result = dict(target) if isinstance(target, dict) else {}
        for name, value in applied.items():
            result[name] = apply(result.get(name), value, schema.field(name) if schema else None)
            if value is None:  # an applied null removes the field
                del result[name]
        return result
    if isinstance(applied, list) and schema and raw.get("x-kubernetes-list-type") in ("map", "set"):
        return _merged(target if isinstance(target, list) else [], applied, schema)
    return applied


def _merged(target: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """The applied items in the order of the configuration; the other items keep their places.

    Applied items that the old list has in the same order are anchors. The result follows the old
    list; at an anchor it inserts all applied items up to and including the anchor. The applied
    items that remain come last.
    """
    old = [(_key(item, schema), item) for item in target]
    items_applied = {_key(item, schema): item for item in applied}
    if len(items_applied) < len(applied):
        raise bad_request("failed to create typed patch object: an item of a list comes twice")
    # Reversed, so that the first of two old items with the same key counts.
    by_key, order = dict(reversed(old)), list(items_applied)
    anchors = [i for i, key in enumerate(order) if key in by_key]
    result: list[Any] = []
    taken = passed = 0

    def take(upto: int) -> int:
        items, keys = schema.items(), order[taken:upto]
        result.extend(apply(by_key.get(key), items_applied[key], items) for key in keys)
        return upto

    for key, item in old:
        if key not in items_applied:
            result.append(item)
        # An applied item that is not the next anchor comes with a later anchor, or at the end.
        elif passed < len(anchors) and key == order[anchors[passed]]:
            taken = take(anchors[passed] + 1)
            passed += 1
    take(len(order))
    return result


def _key(item: Any, schema: Schema) -> Key:
    """The identity of an item: the values of its keys, or the item itself."""
    keys = schema.raw.get("x-kubernetes-list-map-keys") or ()
    if not keys:
        return (repr(item),)
    items = schema.items()
    if not isinstance(item, dict) or items is None:
        raise bad_request("failed to create typed patch object: an item of a list is no object")
    values = [item.get(key, items.properties.get(key, {}).get("default")) for key in keys]
    if None in values:
        raise bad_request(
            "failed to create typed patch object: associative list with keys has an element that"
            f" omits key field {keys[values.index(None)]!r} (and doesn't have default value)"
        )
    return tuple(map(repr, values))
