"""A configuration merged into an object, and fields removed from an object.

Maps are merged unless they are atomic, and so are lists whose items have keys or form a set;
everything else is replaced. Neither argument is changed; the result may share parts with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localkube.apiserver.apply import field_set
from localkube.apiserver.apply.field_types import ABSENT, FieldType, untyped
from localkube.apiserver.apply.list_items import by_element, element_of

if TYPE_CHECKING:
    from localkube.apiserver.apply.field_set import FieldSet


def merged(live: Any, applied: Any, of: FieldType) -> Any:
    """The value after a configuration was merged into it."""
    if isinstance(applied, dict) and not of.atomic_map:
        result = dict(live) if isinstance(live, dict) else {}
        for name, part in applied.items():
            result[name] = merged(result.get(name, ABSENT), part, of.field(name) or untyped())
        return result
    if isinstance(applied, list) and not of.atomic_list:
        return _merged_lists(live if isinstance(live, list) else [], applied, of)
    return applied


def _merged_lists(live: list[Any], applied: list[Any], of: FieldType) -> list[Any]:
    """The applied items in the order of the configuration; the other items keep their places.

    Applied items that the live list has in the same order are anchors. The result follows the live
    list; at an anchor it inserts all applied items up to and including the anchor. The applied
    items that remain come last.
    """
    old = by_element(live, of)
    new = {element_of(item, of): item for item in applied}
    order, items = list(new), of.items()
    anchors = [place for place, element in enumerate(order) if element in old]
    result: list[Any] = []
    taken = passed = 0

    def take(upto: int) -> int:
        for element in order[taken:upto]:
            same = old.get(element, [])
            # Of several live items with the same keys none is the one to merge into.
            before = same[0] if len(same) == 1 else ABSENT
            result.append(merged(before, new[element], items))
        return upto

    for item in live:
        element = element_of(item, of)
        if element not in new:
            result.append(item)
        # An applied item that is not the next anchor comes with a later anchor, or at the end.
        elif passed < len(anchors) and element == order[anchors[passed]]:
            taken = take(anchors[passed] + 1)
            passed += 1
    take(len(order))
    return result


def removed(value: Any, fields: FieldSet, of: FieldType) -> Any:
    """The value without the fields of a set; None if nothing is left of a map or a list."""
    if isinstance(value, dict):
        parts = {} if of.atomic_map else value
        return {
            name: left
            for name, part in parts.items()
            if (left := _left(part, fields.get(of.tag(name)), of.field(name))) is not ABSENT
        } or None
    if isinstance(value, list):
        items = [] if of.atomic_list else value
        return [
            left
            for item in items
            if (left := _left(item, fields.get(element_of(item, of)), of.items())) is not ABSENT
        ] or None
    return value


def _left(part: Any, node: FieldSet | None, of: FieldType | None) -> Any:
    """A part of a value, if its node in the set of removed fields is this one."""
    if node is None:
        return part
    return ABSENT if field_set.is_member(node) else removed(part, node, of or untyped())


def with_named_fields(fields: FieldSet, of: FieldType) -> FieldSet:
    """The set with all declared fields that lead to a field of the set.

    An apply owns the leaves, not the struct around them. The struct goes with its last leaf.
    """
    result: FieldSet = {}
    for element, node in fields.items():
        if element == field_set.SELF:
            continue
        name = element[2:]
        is_field = element.startswith("f:")
        inner_type = (of.field(name) if is_field else of.items()) or untyped()
        inner = with_named_fields(node, inner_type)
        named = is_field and name in of.declared
        field_set.put(result, element, inner, member=named or field_set.is_member(node))
    return result
