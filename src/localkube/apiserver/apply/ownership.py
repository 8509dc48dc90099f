"""Who owns which fields after an update or an apply.

An update takes every field that it changes, from whoever owned it. An apply owns what it states: a
field that another manager owns with another value is a conflict, unless the apply is forced; a
field that it stated last time, states no longer and that nobody else owns is removed.

Nothing here changes an argument. An object after an apply may share parts with the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from localkube.apiserver.apply.compare import Comparison, compare, stated_fields
from localkube.apiserver.apply.field_set import (
    SELF,
    FieldSet,
    difference,
    intersection,
    is_member,
    put,
    union,
    without,
)
from localkube.apiserver.apply.field_types import ABSENT, FieldType, by_element, element_of, untyped

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw


class Manager(NamedTuple):
    """The identity of an owner. Applies with several versions of a kind are of one owner."""

    name: str
    operation: str
    version: str
    """The API version of an update; empty for an apply."""
    subresource: str


class Owned(NamedTuple):
    """The fields of one owner, in the version in which it wrote them."""

    fields: FieldSet
    version: str


Owners = dict[Manager, Owned]


class ConflictsError(Exception):
    """An apply changes fields of other managers."""

    def __init__(self, by_manager: dict[Manager, FieldSet]) -> None:
        super().__init__("conflicts")
        self.by_manager = by_manager


class Configuration(NamedTuple):
    """An applied configuration: the fields that a manager wants, and no others."""

    obj: Raw
    manager: Manager
    version: str
    reset: FieldSet
    """Fields that this manager cannot set."""
    force: bool = False
    """Whether it takes fields from other managers."""


def update(
    old: Raw, new: Raw, owners: Owners, of: FieldType, reset: FieldSet
) -> tuple[Owners, FieldSet]:
    """What is left to the owners by a write that changes `old` into `new`, and what it takes.

    `reset` are fields that the write cannot set.
    """
    comparison = _filtered(compare(old, new, of), reset)
    return _taken_from(owners, comparison, None), comparison.changed


def apply(live: Raw, owners: Owners, config: Configuration, of: FieldType) -> tuple[Raw, Owners]:
    """The object and its owners after a configuration was applied."""
    manager, reset = config.manager, config.reset
    last = owners.get(manager)
    stated = without(stated_fields(config.obj, of), reset)
    owners = {**owners, manager: Owned(stated, config.version)}
    obj = _pruned(merged(live, config.obj, of), owners, last.fields if last else {}, of)
    comparison = _filtered(compare(live, obj, of), reset)
    conflicts = {
        other: common
        for other, owned in owners.items()
        if other != manager and (common := intersection(owned.fields, comparison.changed))
    }
    if conflicts and not config.force:
        raise ConflictsError(conflicts)
    return obj, _taken_from(owners, comparison, manager)


def _filtered(comparison: Comparison, reset: FieldSet) -> Comparison:
    if not reset:
        return comparison
    return Comparison(without(comparison.changed, reset), without(comparison.removed, reset))


def _taken_from(owners: Owners, comparison: Comparison, writer: Manager | None) -> Owners:
    """The owners without the fields that a write takes or removes."""
    left: Owners = {}
    for manager, owned in owners.items():
        fields = owned.fields
        if manager != writer:
            fields = difference(difference(fields, comparison.changed), comparison.removed)
        if fields:
            left[manager] = Owned(fields, owned.version)
    return left


def _pruned(obj: Raw, owners: Owners, last: FieldSet, of: FieldType) -> Raw:
    """The object without the fields of the last apply that nobody owns any more."""
    if not last:
        return obj
    last = with_named_fields(last, of)
    owned: FieldSet = {}
    for other in owners.values():
        owned = union(owned, other.fields)

    def fields_of(part: Raw | None) -> FieldSet:
        return with_named_fields(stated_fields(part or {}, of), of)

    everything = fields_of(obj)
    kept = union(fields_of(removed(obj, last, of)), with_named_fields(owned, of))
    # Fields that other writes made without owning them stay too.
    gone = difference(everything, fields_of(removed(obj, difference(everything, kept), of)))
    return removed(obj, intersection(gone, last), of) or {}


# -- merging a configuration into an object ------------------------------------------------------


def merged(live: Any, applied: Any, of: FieldType) -> Any:
    """The value after a configuration was merged into it.

    Maps are merged unless they are atomic, and so are lists whose items have keys or form a set;
    everything else is replaced.
    """
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
    return ABSENT if is_member(node) else removed(part, node, of or untyped())


def with_named_fields(fields: FieldSet, of: FieldType) -> FieldSet:
    """The set with all declared fields that lead to a field of the set.

    An apply owns the leaves, not the struct around them. The struct goes with its last leaf.
    """
    result: FieldSet = {}
    for element, node in fields.items():
        if element == SELF:
            continue
        name = element[2:]
        is_field = element.startswith("f:")
        inner_type = (of.field(name) if is_field else of.items()) or untyped()
        inner = with_named_fields(node, inner_type)
        named = is_field and name in of.declared
        put(result, element, inner, member=named or is_member(node))
    return result
