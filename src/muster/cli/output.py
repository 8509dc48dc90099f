"""What people see: aligned tables, human times, JSON and YAML.

Used by every verb that prints. Promise: in a pipe the output is plain text, one record per line,
without colour; control characters in names and messages never reach the terminal.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from muster.cli.main import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def table(rows: Iterable[Sequence[str]], *, indent: str = "") -> str:
    """Columns padded to their widest cell plus two; the last cell of a row is not padded."""
    cells = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    columns = max((len(row) for row in cells), default=0)
    widths = [
        max((len(row[i]) for row in cells if i < len(row)), default=0) for i in range(columns)
    ]
    lines = []
    for row in cells:
        padded = [cell.ljust(widths[i] + 2) for i, cell in enumerate(row[:-1])]
        lines.append(indent + "".join(padded) + (row[-1] if row else ""))
    return "\n".join(line.rstrip() for line in lines)


def underlined(header: Sequence[str], rows: Iterable[Sequence[str]], *, indent: str = "") -> str:
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


def local_time(moment: datetime | None) -> str:
    """A timestamp in the reader's own time zone; empty when there is none."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def structured(value: Any, how: str) -> str:
    """JSON or YAML of plain data."""
    if how == "json":
        import json

        return json.dumps(value, indent=4, ensure_ascii=False, default=str)
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text.rstrip("\n")


def patiently(reached: Callable[[], bool], seconds: float, saying: str) -> bool:
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


def note(text: str) -> None:
    """A line for the person, on stderr, so that stdout stays machine-readable."""
    print(printable(text), file=sys.stderr)


def info(text: str) -> None:
    """An INFO line, shaped like arena's."""
    note(f"INFO[0000] {text}")
