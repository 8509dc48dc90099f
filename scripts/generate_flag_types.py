"""Writes src/muster/sdk/flag_types.py: the arguments of `muster.submit` with their types.

Type checkers and editors read the file; the table of flags is its only source. `make docs` runs it,
and a test compares the file with the table.
"""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path

from muster.jobs.build.flags import BY_TYPE, Flag, Submission, flags_of

FILE = Path(__file__).parent.parent / "src" / "muster" / "sdk" / "flag_types.py"
DURATIONS = ("running_timeout", "starting_timeout", "ttl_after_finished")
HEAD = '''"""The arguments of `muster.submit` with their types: the flags of `arena submit`.

Written by `scripts/generate_flag_types.py` from the table of flags; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Required

from muster.sdk.cluster_choice import ClusterChoice

if TYPE_CHECKING:
    from datetime import timedelta

Text = str | int | float | PathLike[str]
"""One value."""
Texts = Text | Sequence[Text] | Mapping[str, Text]
"""Several values: `["A=1", "B=2"]`, `{"A": 1, "B": 2}`, or one text."""


class JobArguments(ClusterChoice, total=False):
    """The flags of all kinds of job, but for the name. An argument that is None is not given."""
'''
NAME = '''

class SubmitArguments(JobArguments, total=False):
    """The arguments of `muster.submit`. An argument that is None is not given."""
'''
RUN = '''

class RunArguments(JobArguments, total=False):
    """The arguments of `muster.run`, but for the function. One that is None is not given."""

    kind: Required[str]
    """`pytorch`, `tf`, `mpi` or `jax`."""
    name: str | None
    """Name of the job; by default it is made from the function's name."""
    shared_dir: str | PathLike[str] | None
    """Directory that the program and the replicas see at the same path, for large values."""
'''


def type_of(flag: Flag) -> str:
    """The type of an argument."""
    if flag.default is MISSING:
        return "Required[str]"
    if flag.default == ():
        name = "Texts"
    elif flag.is_switch:
        name = "bool"
    elif isinstance(flag.default, int):
        name = "int"
    else:
        name = "str | timedelta" if flag.field in DURATIONS else "Text"
    return f"{name} | None"


def text() -> str:
    """The file."""
    flags = {flag.field: flag for flag in flags_of(Submission)}
    kinds: dict[str, list[str]] = {}
    for kind in BY_TYPE.values():
        for flag in flags_of(kind):
            flags.setdefault(flag.field, flag)
            kinds.setdefault(flag.field, []).append(kind.job_kind.trainer.removesuffix("job"))
    rows: dict[str, list[str]] = {}
    for field, flag in flags.items():
        words = flag.help.partition("  [")[0].removesuffix(".")
        only = "" if len(kinds[field]) == len(BY_TYPE) else f" ({', '.join(kinds[field])})"
        rows[field] = [f"    {field}: {type_of(flag)}", f'    """{words}{only}."""']
    name = rows.pop("name")  # `run` makes one, so that it is no required argument there
    lines = [HEAD, *(line for row in rows.values() for line in row), NAME, *name, RUN]
    return "\n".join(lines)


if __name__ == "__main__":
    FILE.write_text(text())
