"""Aligned tables and their colours, and JSON or YAML for machines.

In a pipe a table is plain text, one record per line. Control characters in cells are escaped: names
and messages come from a server and may be hostile. On a terminal, words that mean good, bad or
waiting are coloured.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from kubekit.objects.meta import Raw, object_name
from muster.cli.show.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.client.server_tables import Table


GREEN, YELLOW, RED = "32", "33", "31"
PREFIXES = ("36", "35", "33", "32", "34", "96", "95", "93", "92", "94")
"""Colours that distinguish several logs."""

_MEANING = {
    GREEN: ("RUNNING", "SUCCEEDED", "Running", "Completed", "Succeeded", "Ready"),
    YELLOW: (
        "PENDING", "SUSPENDED", "Pending", "ContainerCreating", "PodInitializing", "Terminating",
    ),
    RED: (
        "FAILED", "Failed", "Error", "OOMKilled", "CrashLoopBackOff", "ImagePullBackOff",
        "ErrImagePull", "Evicted", "NotReady", "Unknown", "StartError", "RESTARTING",
    ),
}  # fmt: skip
_COLOURS = {word: colour for colour, words in _MEANING.items() for word in words}


def table(rows: Iterable[Sequence[str]], *, indent: str = "") -> str:
    """Columns padded to their widest cell plus two; the last cell of a row is not padded."""
    cells = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    columns = max((len(row) for row in cells), default=0)
    widths = [
        max((len(row[i]) for row in cells if i < len(row)), default=0) for i in range(columns)
    ]
    coloured = shows_colours(sys.stdout)
    lines = []
    for row in cells:
        padded = [cell.ljust(widths[i] + 2) for i, cell in enumerate(row[:-1])]
        line = indent + "".join(padded) + (row[-1] if row else "")
        lines.append(_colour_cells(line.rstrip(), row) if coloured else line.rstrip())
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


def print_objects(items: Sequence[Raw], output: str) -> None:
    """The objects by name, or as JSON or YAML: one by itself, several as a List."""
    from muster.client.manifests.reader import as_list

    if output == "name":
        for item in items:
            print(object_name(item))
    elif items:
        print(json_or_yaml(items[0] if len(items) == 1 else as_list(items), output))


def shows_colours(stream: TextIO) -> bool:
    """Whether this stream shows colours: a terminal that is not dumb, unless NO_COLOR is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and stream.isatty()


def colour(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def _colour_cells(line: str, cells: Iterable[str]) -> str:
    """A line of a table in which cells that are one of the coloured words are coloured."""
    for cell in cells:
        if cell in _COLOURS:
            # Once, and not within a longer word.
            word = re.compile(rf"(?<!\S){re.escape(cell)}(?!\S)")
            line = word.sub(colour(cell, _COLOURS[cell]), line, count=1)
    return line
