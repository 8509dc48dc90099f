"""The fields in which two objects differ, and the fields that one object states.

Values that are equal are not walked into: that comparison is fast, and most of an object stays as
it is. A Go object has some fields that nobody set (`FieldType.implied`); they count on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from localkube.apiserver.apply import field_set
from localkube.apiserver.apply.field_set import LEAF, SELF, FieldSet
from localkube.apiserver.apply.field_types import ABSENT, FieldType, Shape, by_element, untyped

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw


_MAX_SHAPES = 256
"""Sets of fields for which one type remembers the node."""
_NO_FIELDS: dict[str, Any] = {}


class Comparison(NamedTuple):
    """The differences between an old and a new object."""

    changed: FieldSet
    """Fields that are new or have another value."""
    removed: FieldSet


def compare(old: Raw, new: Raw, of: FieldType) -> Comparison:
    """The differences between two objects of the same kind."""
    result = Comparison({}, {})
    _compare_maps(old, new, of, result)
    return result


def whole(value: Any, of: FieldType) -> FieldSet:
    """The node of a value that is new, or gone: the value itself and everything in it."""
    if type(value) is dict and not of.atomic_map:
        return _whole_map(value, of)
    if type(value) is list and not of.atomic_list and value:
        items = of.items()
        node = {SELF: LEAF}
        for element, same in by_element(value, of).items():
            node[element] = whole(same[0], items) if len(same) == 1 else LEAF
        return node
    return LEAF


def _whole_map(value: Raw, of: FieldType) -> FieldSet:
    if not of.declared and of.element is not None and of.element.is_leaf:  # such as labels
        return {SELF: LEAF, **{f"f:{name}": LEAF for name in value}} if value else LEAF
    # Most maps of a kind have the same fields, so most of the node is there already.
    names = tuple(value)
    shape = of.shapes.get(names)
    if shape is None:
        shape = _shape(names, of)
        if of.declared.issuperset(names) and len(of.shapes) < _MAX_SHAPES:
            of.shapes[names] = shape
    node, nested = shape
    if not nested:
        return node
    node = dict(node)
    for name, element, field in nested:
        part = value.get(name, _NO_FIELDS)
        if type(part) is dict or type(part) is list:
            node[element] = whole(part, field)
    return node


def _shape(names: tuple[str, ...], of: FieldType) -> Shape:
    implied = [name for name in of.implied if name not in names]
    node: FieldSet = {of.tag(name): LEAF for name in (*names, *implied)}
    maps = [*names, *(name for name in implied if of.implied[name] == {})]
    typed = [(name, of.tag(name), of.field(name) or untyped()) for name in maps]
    nested = tuple(row for row in typed if not row[2].is_leaf)
    return ({SELF: LEAF, **node} if node else LEAF), nested


def _compare_maps(old: Raw, new: Raw, of: FieldType, result: Comparison) -> None:
    implied = of.implied
    for name in {**implied, **old, **new}:
        zero = implied.get(name, ABSENT)
        before, after = old.get(name, zero), new.get(name, zero)
        if before is after or _same(before, after):
            continue
        _compare_parts(of.tag(name), before, after, of.field(name) or untyped(), result)


def _same(before: Any, after: Any) -> bool:
    # In Python, True is 1.
    return bool(before == after) and isinstance(before, bool) == isinstance(after, bool)


def _compare_parts(
    element: str, before: Any, after: Any, of: FieldType, result: Comparison
) -> None:
    """Compare the values at one path element, which are not equal."""
    if before is ABSENT:
        result.changed[element] = whole(after, of)
    elif after is ABSENT:
        result.removed[element] = whole(before, of)
    elif _is_leaf(before, of) and _is_leaf(after, of):
        result.changed[element] = LEAF
    else:
        inner = Comparison({}, {})
        if isinstance(before, list) or isinstance(after, list):
            old, new = (by_element(v if isinstance(v, list) else [], of) for v in (before, after))
            for item in {**old, **new}:
                _compare_items(item, old.get(item, []), new.get(item, []), of, inner)
        else:
            one, other = (v if isinstance(v, dict) else {} for v in (before, after))
            _compare_maps(one, other, of, inner)
        # A value that becomes a map, or stops being one, changes itself.
        scalar = not all(v is None or isinstance(v, dict | list) for v in (before, after))
        field_set.put(result.changed, element, inner.changed, member=scalar)
        field_set.put(result.removed, element, inner.removed, member=False)


def _is_leaf(value: Any, of: FieldType) -> bool:
    """Whether a value is changed as a whole: a scalar, an atomic or an empty map or list."""
    if isinstance(value, dict):
        return of.atomic_map or not (value or of.implied)
    if isinstance(value, list):
        return of.atomic_list or not value
    return True


def _compare_items(
    element: str, before: list[Any], after: list[Any], of: FieldType, result: Comparison
) -> None:
    """Compare the items with one identity. Several such items have one owner as a whole."""
    items = of.items()
    if len(before) <= 1 and len(after) <= 1:
        one, other = (before or [ABSENT])[0], (after or [ABSENT])[0]
        if not _same(one, other):
            _compare_parts(element, one, other, items, result)
    elif before != after:
        if after:
            result.changed[element] = LEAF if len(after) > 1 else whole(after[0], items)
        if before and (len(before) == 1 or len(after) <= 1):
            result.removed[element] = LEAF if len(before) > 1 else whole(before[0], items)


# -- the fields of one configuration -------------------------------------------------------------


def stated_fields(value: Any, of: FieldType) -> FieldSet:
    """What a configuration states, and an apply owns: the leaves and items of a map or a list."""
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
