"""Who owns which fields after an update or an apply.

An update takes every field that it changes, from whoever owned it. An apply owns what it states: a
field that another manager owns with another value is a conflict, unless the apply is forced; a
field that it stated last time, states no longer and that nobody else owns is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from localkube.apiserver.apply.compare import Comparison, compare
from localkube.apiserver.apply.extract import stated_fields
from localkube.apiserver.apply.field_set import (
    FieldSet,
    difference,
    intersection,
    union,
    without,
)
from localkube.apiserver.apply.merge import merged, removed, with_named_fields

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.apply.field_types import FieldType


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


class Applied(NamedTuple):
    """The result of an apply."""

    obj: Raw
    owners: Owners


def update(
    old: Raw, new: Raw, owners: Owners, manager: Manager, of: FieldType, reset: FieldSet
) -> Owners:
    """The owners after a write that changes `old` into `new`; `reset` are fields it cannot set.

    The manager is not in the result if it takes nothing: then its entry stays as it was.
    """
    comparison = _filtered(compare(old, new, of), reset)
    left = _taken_from(owners, comparison, None)
    if comparison.changed:
        left[manager] = Owned(comparison.changed, manager.version)
    return left


def apply(live: Raw, owners: Owners, config: Configuration, of: FieldType) -> Applied:
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
    return Applied(obj, _taken_from(owners, comparison, manager))


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
    everything = with_named_fields(stated_fields(obj, of), of)
    pruned = _fields_left(obj, last, of)
    kept = union(pruned, with_named_fields(owned, of))
    first = removed(obj, difference(everything, kept), of) or {}
    # Fields that other writes made without owning them stay too.
    gone = difference(everything, with_named_fields(stated_fields(first, of), of))
    return removed(obj, intersection(gone, last), of) or {}


def _fields_left(obj: Raw, fields: FieldSet, of: FieldType) -> FieldSet:
    left = removed(obj, fields, of) or {}
    return with_named_fields(stated_fields(left, of), of)
