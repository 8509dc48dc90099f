"""Whether the commands would accept a line: the verb exists, and its flags and arguments fit."""

from __future__ import annotations

import shlex

import click

from muster.cli.verb_groups import RootGroup


def check(line: str) -> None:
    """Raise if `arena` or `muster` would refuse this line before it does anything."""
    program, *words = shlex.split(line)
    command: click.Command = RootGroup(name=program)
    context = click.Context(command, info_name=program)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
        context = click.Context(command, info_name=name, parent=context)
    if words != ["--help"] and not isinstance(command, click.Group):
        command.make_context(context.info_name, words, parent=context.parent)
