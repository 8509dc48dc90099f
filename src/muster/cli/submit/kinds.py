"""The click commands `submit tf`, `submit mpi`, …, made from the tables of flags."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import click

from muster.cli import flags
from muster.cli.cluster import Where, cluster_options
from muster.cli.submit import orders, table
from muster.jobs import build

if TYPE_CHECKING:
    from collections.abc import Callable

_ABOUT = {
    "tfjob": ("a TensorFlow job", "tf", '--ps=1 --workers=2 "python train.py"'),
    "mpijob": ("an MPI job", "mpi, mj", '--workers=2 "mpirun python train.py"'),
    "pytorchjob": ("a PyTorch job", "pytorch", '--workers=2 "torchrun train.py"'),
    "jaxjob": ("a JAX job", "jax", '--workers=2 "python train.py"'),
}


def command(type_: str) -> click.Command:
    """`submit TYPE`."""
    what, other, example = _ABOUT[type_]
    submission = build.BY_TYPE[type_]

    def submit(where: Where, words: tuple[str, ...], order: orders.Order, **given: Any) -> None:
        orders.submit(submission, {**given, "command": words}, where, order)

    submit.__doc__ = f"""Submit {what} (also: submit {other}).

    All words that are no flags are the training command; they are joined and run by --shell.

    \b
    Example:
      arena submit {other.partition(",")[0]} --name=hello --image=python:3.12 --gang {example}
    """
    made: Any = cluster_options(submit)
    made = click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND")(made)
    made = orders.options(made)
    known = {field.name: field.default for field in fields(submission)}
    for row in reversed(table.flags(type_)):
        made = _option(row, known[row.field])(made)
    return click.command(name=type_, cls=flags.Command)(made)


def _option(row: table.Flag, default: object) -> Callable[[Any], Any]:
    how: dict[str, Any] = {"help": row.help, "cls": flags.Option, "old": row.old}
    if isinstance(default, bool):
        switch = f"{row.spelling}/--no-{row.spelling.lstrip('-')}"
        # None tells a switch that was not written from one that was switched off.
        return click.option(switch, row.field, default=None, **how)
    spellings = [part for part in (row.spelling, row.old, row.short) if part]
    if default is MISSING:
        how["required"] = True
    elif default == ():
        how |= {"multiple": True}
    else:
        how |= {"default": default, "show_default": default not in ("", 0)}
    return click.option(*spellings, row.field, **how)
