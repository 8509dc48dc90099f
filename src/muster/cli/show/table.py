"""Aligned tables, and JSON or YAML for machines.

In a pipe a table is plain text, one record per line. Control characters in cells are escaped: names
and messages come from a server and may be hostile.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from muster.cli.show import colour
from muster.cli.show.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.client.server_tables import Table


def table(rows: Iterable[Sequence[str]], *, indent: str = "") -> str:
    """Columns padded to their widest cell plus two; the last cell of a row is not padded."""
    cells = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    columns = max((len(row) for row in cells), default=0)
    widths = [
        max((len(row[i]) for row in cells if i < len(row)), default=0) for i in range(columns)
    ]
    coloured = colour.enabled(sys.stdout)
    lines = []
    for row in cells:
        padded = [cell.ljust(widths[i] + 2) for i, cell in enumerate(row[:-1])]
        line = indent + "".join(padded) + (row[-1] if row else "")
        lines.append(colour.colour_cells(line.rstrip(), row) if coloured else line.rstrip())
    return "\n".join(lines)


def underlined_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, indent: str = ""
) -> str:
    """A table whose header has a row of dashes under it, as `arena get` draws it."""
    return table([header, ["-" * len(cell) for cell in header], *rows], indent=indent)


def with_namespaces(
    rows: Iterable[Sequence[str]], namespaces: Iterable[str]
) -> list[tuple[str, ...]]:
    """A header and its rows, with a first column for the namespace of each row."""
    column = ("NAMESPACE", *namespaces)
    return [(namespace, *row) for namespace, row in zip(column, rows, strict=True)]


def server_table(source: Table, *, wide: bool, all_namespaces: bool) -> str:
    """A table that the server made; `wide` shows all its columns."""
    # As in kubectl, columns of priority 0 are always shown, others only with `-o wide`.
    shown = [i for i, column in enumerate(source.columns) if wide or not column.priority]
    header = [source.columns[i].name.upper() for i in shown]
    rows: Sequence[Sequence[str]] = [
        header,
        *([_cell(row.cells[i]) for i in shown if i < len(row.cells)] for row in source.rows),
    ]
    if all_namespaces:
        metadata = [row.object.get("metadata") or {} for row in source.rows]
        rows = with_namespaces(rows, (str(meta.get("namespace") or "") for meta in metadata))
    return table(rows)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "<none>" if value is None else str(value)


def json_or_yaml(value: Any, form: str) -> str:
    """Plain data as JSON or YAML; their modules are slow to load and loaded when used."""
    if form == "json":
        import json

        return json.dumps(value, indent=4, ensure_ascii=False, default=str)
    from muster.client.manifests.yaml_writer import dump

    return dump(value)
