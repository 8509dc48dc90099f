"""The set of fields that a configuration states: an apply owns exactly these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localkube.apiserver.apply.field_set import LEAF, SELF, FieldSet
from localkube.apiserver.apply.list_items import by_element

if TYPE_CHECKING:
    from localkube.apiserver.apply.field_types import FieldType


def stated_fields(value: Any, of: FieldType) -> FieldSet:
    """The leaves and the items of a map or a list; nothing for a leaf."""
    if isinstance(value, dict) and not of.atomic_map:
        return {
            of.tag(name): node
            for name, part in value.items()
            if (node := _node(name, part, of)) is not None
        }
    if isinstance(value, list) and not of.atomic_list:
        return {
            # Items with the same keys have one owner as a whole.
            element: _with_self(stated_fields(same[0], of.items())) if len(same) == 1 else LEAF
            for element, same in by_element(value, of).items()
        }
    return LEAF


def _node(name: str, part: Any, of: FieldType) -> FieldSet | None:
    """The node of a field. A map or a list that the schema declares belongs to nobody itself."""
    field = of.field(name)
    inner = stated_fields(part, field) if field is not None else LEAF
    if name not in of.declared:
        return _with_self(inner)
    # An empty list that is merged item by item states nothing; an empty map does.
    states_nothing = part == [] and field is not None and not field.atomic_list
    return None if states_nothing else inner


def _with_self(inner: FieldSet) -> FieldSet:
    return {SELF: LEAF, **inner} if inner else LEAF
