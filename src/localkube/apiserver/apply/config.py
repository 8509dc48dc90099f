"""Checks of an applied configuration: every field must be declared and every item identified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localkube.apiserver.apply import path_elements
from localkube.apiserver.apply.list_items import NoIdentityError, element_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localkube.apiserver.apply.field_types import FieldType


def config_errors(value: Any, of: FieldType) -> list[str]:
    """What makes a configuration impossible to apply, each error with its path."""
    return [f"{path}: {why}" if path else why for path, why in _errors(value, of, "")]


def _errors(value: Any, of: FieldType, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield from _map_errors(value, of, path)
    elif isinstance(value, list) and of.atomic_list:
        for place, item in enumerate(value):
            yield from _errors(item, of.items(), f"{path}[{place}]")
    elif isinstance(value, list):
        yield from _list_errors(value, of, path)


def _map_errors(value: dict[str, Any], of: FieldType, path: str) -> Iterator[tuple[str, str]]:
    for name, part in value.items():
        field = of.field(name)
        if field is None:
            yield f"{path}.{name}", "field not declared in schema"
        else:
            yield from _errors(part, field, f"{path}.{name}")


def _list_errors(value: list[Any], of: FieldType, path: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for place, item in enumerate(value):
        try:
            element = element_of(item, of)
        except NoIdentityError as error:
            yield path, f"element {place}: {error}"
            return
        text = path_elements.path_text((element,))
        if element in seen:
            yield path, f"duplicate entries for key {text}"
        seen.add(element)
        yield from _errors(item, of.items(), f"{path}{text}")
