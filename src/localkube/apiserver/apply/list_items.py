"""The items of lists that are merged item by item: the path element of each item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localkube.apiserver.apply import path_elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localkube.apiserver.apply.field_types import FieldType


class NoIdentityError(ValueError):
    """An item cannot be found again, because it has no keys or no plain value."""


def element_of(item: Any, of: FieldType) -> str:
    """The path element of an item of a list of this type."""
    if not of.keys:
        if isinstance(item, dict):
            raise NoIdentityError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise NoIdentityError("not supported: associative list with lists as elements")
        if item is None:
            why = "associative list without keys has an element that's an explicit null"
            raise NoIdentityError(why)
        return path_elements.item_of_set(item)
    if not isinstance(item, dict):
        kind = "a null element" if item is None else "non-map elements"
        raise NoIdentityError(f"associative list with keys may not have {kind}")
    keys = {key: item[key] for key in of.keys if key in item}
    if len(keys) < len(of.keys):
        keys = of.key_defaults | keys
    if not keys:
        names = " ".join(f'"{key}"' for key in of.keys)
        raise NoIdentityError(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return path_elements.item_with_keys(keys)


def by_element(items: Sequence[Any], of: FieldType) -> dict[str, list[Any]]:
    """The items by their path elements, in order. Several items may have the same one."""
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(element_of(item, of), []).append(item)
    return found
