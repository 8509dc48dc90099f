"""A table has a row for every object, however odd its fields."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kubekit import schemas
from localkube.apiserver.resource_registry import BUILTIN
from localkube.apiserver.views.cells import age

if TYPE_CHECKING:
    from kubekit.schemas import Schema
    from localkube.apiserver.resource import Resource

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ODD: tuple[Any, ...] = (
    None,
    5,
    -1.5,
    "x",
    True,
    [],
    {},
    [None],
    ["x"],
    [{}],
    {"x": "y"},
    "2026-01-01T00:00:00",
)


def odd(schema: Schema | None, dice: random.Random, depth: int = 0) -> Any:
    """A value that mostly matches the schema, with odd values here and there."""
    if schema is None or depth > 9 or dice.random() < 0.1:
        return dice.choice(ODD)
    if schema.properties:
        chance = 0.9 if depth < 2 or len(schema.properties) < 12 else 0.25
        return {
            name: odd(schema.field(name), dice, depth + 1)
            for name in schema.properties
            if dice.random() < chance
        }
    if (items := schema.items()) is not None:
        return [odd(items, dice, depth + 1) for _ in range(dice.randint(0, 2))]
    match schema.type:
        case "integer" | "number":
            return dice.randint(-1, 3)
        case "boolean":
            return dice.random() < 0.5
        case "string":
            return dice.choice(("", "x", "True", "2026-01-01T00:00:00Z"))
        case _:
            return dice.choice(ODD)


@pytest.mark.parametrize(
    "resource", BUILTIN, ids=lambda resource: f"{resource.api_version} {resource.kind}"
)
def test_every_column_has_a_cell_for_an_odd_object(resource: Resource) -> None:
    strategy = resource.strategy
    schema = schemas.for_kind(resource.group, resource.version, resource.kind)
    dice = random.Random(resource.collection)

    for _ in range(150):
        obj = odd(schema, dice)
        if isinstance(obj, dict):
            stored = strategy.forms.to_stored(obj)
            for cell in strategy.table.columns.values():
                assert isinstance(cell(stored, NOW), str | int), obj


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        ("", "<unknown>"),
        ("yesterday", "<invalid>"),
        ("2025-12-31T23:59:50Z", "10s"),
        ("2025-12-31T23:59:50", "10s"),
    ],
)
def test_an_invalid_time_is_shown_as_invalid(since: str, shown: str) -> None:
    assert age(since, NOW) == shown
