"""What people see: aligned tables, human times and amounts, JSON and YAML, lines on stderr.

Used by every verb that prints. Promise: in a pipe the output is plain text, one record per line,
without colour; control characters in names and messages never reach the terminal.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from muster.cli.main import printable
from muster.cli.show import colour

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from muster.api.meta import Raw


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


def age(since: datetime | None, now: datetime | None = None) -> str:
    """How long ago, in one unit: 5s, 3m, 2h, 4d, 1y; N/A when it is not known."""
    if since is None:
        return "N/A"
    return duration(((now or datetime.now(UTC)) - since).total_seconds())


def duration(seconds: float) -> str:
    """One truncated unit, as arena writes it."""
    whole = max(0, int(seconds))
    for limit, size, unit in (
        (60, 1, "s"),
        (3600, 60, "m"),
        (86400, 3600, "h"),
        (31536000, 86400, "d"),
    ):
        if whole < limit:
            return f"{whole // size}{unit}"
    return f"{whole // 31536000}y"


def memory(amount: int) -> str:
    """Bytes in the largest unit that leaves a number above one: 512Mi, 1.5Gi."""
    value, units = float(amount), ["", "Ki", "Mi", "Gi", "Ti"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f}".removesuffix(".0") + units[0]


def cores(milli: int) -> str:
    """Thousandths of a CPU as CPUs: 0.25, 2."""
    return f"{milli / 1000:.2f}".rstrip("0").rstrip(".")


def local_time(moment: datetime | None) -> str:
    """A timestamp in the reader's own time zone; empty when there is none."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def object_name(item: Raw) -> str:
    """`pod/x`, `tfjob.kubeflow.org/x`: as kubectl names an object."""
    group = item["apiVersion"].rpartition("/")[0]
    name = item["metadata"].get("name") or f"{item['metadata'].get('generateName', '')}…"
    return f"{item['kind'].lower()}{'.' if group else ''}{group}/{name}"


def json_or_yaml(value: Any, how: str) -> str:
    """JSON or YAML of plain data."""
    if how == "json":
        import json

        return json.dumps(value, indent=4, ensure_ascii=False, default=str)
    from muster.client.manifests.yaml_writer import dump

    return dump(value)


def wait_until(reached: Callable[[], bool], seconds: float, saying: str) -> bool:
    """Wait until it is so, and say once after a second what is waited for; False if it never is."""
    start = time.monotonic()
    said = False
    while not reached():
        waited = time.monotonic() - start
        if waited > seconds:
            return False
        if waited > 1 and not said:
            note(saying)
            said = True
        time.sleep(0.02)
    return True


LEVELS = ("debug", "info", "warn", "error")


class _Level:
    """The least important line that is shown; `--loglevel` sets it for the run of one command."""

    shown = "info"
    told: ClassVar[set[str]] = set()
    """What was said with `once` in this run."""


def set_loglevel(level: str) -> None:
    """Show lines of this level and above from now on; a run begins."""
    _Level.shown = level
    _Level.told.clear()


def is_debug() -> bool:
    """Whether also what only a debugger wants is shown."""
    return _Level.shown == "debug"


def note(text: str, level: str = "info") -> None:
    """A line for the person, on stderr, so that stdout stays machine-readable."""
    if LEVELS.index(level) >= LEVELS.index(_Level.shown):
        print(printable(text), file=sys.stderr)


def note_once(text: str, level: str = "info") -> None:
    """A note that is not repeated however often its cause is met: a view may be drawn for hours."""
    if text not in _Level.told:
        _Level.told.add(text)
        note(text, level)


def arena_info(text: str) -> None:
    """An INFO line, shaped like arena's."""
    note(f"INFO[0000] {text}")
