"""The page about the scheduler names what there is."""

from __future__ import annotations

import msgspec

from muster.contract.unserved_fields import GROUP_FIELDS, MARKS
from muster.scheduler.settings import Settings, Weights
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "scheduler.md").read_text()


def test_every_setting_is_on_the_page_with_its_default() -> None:
    rows = dict(line.split(" | ")[:2] for line in PAGE.splitlines() if line.startswith("| `"))
    for field in msgspec.structs.fields(Settings):
        row = rows[f"| `{field.encode_name}`"]
        if isinstance(field.default, int | float | str) and field.default != "":
            assert row == str(field.default).lower().removesuffix(".0")
    for weight in msgspec.structs.fields(Weights):
        assert f"`{weight.encode_name}`" in PAGE


def test_every_field_without_effect_is_on_the_page() -> None:
    cells = [line.split("|") for line in PAGE.splitlines() if line.count("|") == 4]
    listed = " ".join(row[3] for row in cells)
    names = [row.name for row in MARKS]
    names += [row.name for rows in GROUP_FIELDS.values() for row in rows]

    assert [name for name in names if f"`{name.rpartition('/')[2]}`" not in listed] == []
