"""The training command on the command line of `submit`: where it begins, and how it is run.

    arena submit tf --name=x "python train.py" --workers=2        one quoted word: flags may follow
    arena submit tf --name=x --workers=2 python train.py --lr=1   all words from the first non-flag
    arena submit tf --name=x --workers=2 -- python train.py       all words after `--`

A first word with a space in it is the whole command, as arena's users write it: a line for the
shell. Otherwise the command is every word from the first one that is neither a flag nor the value
of a flag. Its own flags are not parsed, and its words reach the program as the user's shell passed
them to `arena`.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click

from kubekit.errors import nearest
from muster.cli.arena_parser import (
    ArenaCommand,
    ArenaOption,
    choices_if_optional,
    options_by_spelling,
    options_of,
    refuse_loose_values,
)
from muster.cli.show.messages import note
from muster.cli.verb_groups import AliasGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SHELL_SYNTAX = re.compile(r"\|\|?|&&?|;|[0-9]?>>?(&[0-9])?|<|\$\{?\w+\}?")
"""A word that only a shell understands: an operator or a variable."""


_COMMAND_WORD = re.compile(r"python|torchrun|mpirun|bash|sh$|.*[\s./]")
"""The first word of a training command, which a user wrote without the kind of job."""
_KIND_FIRST = 'write tf, mpi, pytorch or jax first: arena submit tf --name=NAME "python train.py"'
_COMMAND_GROUP, _CLUSTER_GROUP = "Output and waiting", "Cluster"
_CLUSTER_OPTIONS = ("namespace", "kubeconfig", "context", "loglevel")


class SubmitCommand(ArenaCommand):
    """`submit KIND`: flags, then the training command. The help shows the flags in groups."""

    def option_groups(self) -> Iterator[tuple[str, list[click.Option]]]:
        """The heading and the options of each group; the first has what most jobs need."""
        groups: dict[str, list[click.Option]] = {}
        for option in options_of(self):
            if isinstance(option, ArenaOption):
                heading = option.group
            else:
                heading = _CLUSTER_GROUP if option.name in _CLUSTER_OPTIONS else _COMMAND_GROUP
            if not option.hidden:
                groups.setdefault(heading, []).append(option)
        first, *others = (heading for heading in groups if heading != _COMMAND_GROUP)
        for heading in (first, _COMMAND_GROUP, *others):
            yield heading, groups[heading]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, options in self.option_groups():
            records = [option.get_help_record(ctx) for option in options]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])

    def flag_of_another_command(self, ctx: click.Context, name: str) -> str:
        """`--ps is a flag of tf jobs`."""
        group = ctx.parent.command if ctx.parent else None
        if not isinstance(group, click.Group):
            return ""
        kinds = [
            kind.removesuffix("job")
            for kind, command in group.commands.items()
            if name in options_by_spelling(command)
        ]
        return f"{name} is a flag of {' and '.join(kinds)} jobs" if kinds else ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = options_by_spelling(self)
        start = command_start(args, options)
        # `--gang true --name=x …`: `true` was meant as the value of the switch.
        refuse_loose_values(args[: start + 2], options)
        if start < len(args) and args[start] != "--" and not is_shell_line(args[start]):
            _note_swallowed(args[start + 1 :], options)
            args = [*args[:start], "--", *args[start:]]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            names = [word.partition("=")[0] for word in args[:start]]
            if error.possibilities or error.option_name in names:
                raise
            hint = "A flag of the training command belongs inside its quotes."
            raise click.UsageError(f"{error.format_message()} {hint}", error.ctx) from None


class SubmitGroup(AliasGroup):
    """`submit`: a wrong kind, or a flag before the kind, is answered with an example."""

    def unknown(self, ctx: click.Context, word: str) -> str:
        is_command = _COMMAND_WORD.match(word)
        near = "" if is_command else nearest(word, [*self.list_commands(ctx), *self.aliases])
        return f"no such kind of job: {word}; {f'did you mean {near}?' if near else _KIND_FIRST}"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
            flags = {spelling for one in commands if one for spelling in options_by_spelling(one)}
            if error.option_name not in flags:
                raise
            message = f"{error.option_name} comes after the kind of job; {_KIND_FIRST}"
            raise click.UsageError(message, error.ctx) from None


class AttachCommand(click.Command):
    """`attach JOB [COMMAND…]`: the words from the second non-flag on are the command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = options_by_spelling(self)
        name = command_start(args, options)
        start = name + 1 + command_start(args[name + 1 :], options)
        if start < len(args) and args[name] != "--" and args[start] != "--":
            args = [*args[:start], "--", *args[start:]]
        return super().parse_args(ctx, args)


def command_start(words: Sequence[str], options: Mapping[str, click.Option]) -> int:
    """The position of the first word that is neither a flag nor the value of a flag."""
    position = 0
    while position < len(words):
        word = words[position]
        if word in ("-", "--") or not word.startswith("-"):
            return position
        option = options.get(word)
        takes_next = option and not option.is_flag and not choices_if_optional(option)
        position += 2 if takes_next else 1
    return len(words)


def shell_line(words: Sequence[str]) -> str:
    """The line that the shell of the container runs.

    One word, or a first word with a space, is such a line already; further words are appended to it
    as arena does. The words of an unquoted command are quoted, so that each stays one argument.
    """
    if len(words) > 1 and not is_shell_line(words[0]):
        return shlex.join(words)
    return " ".join(words)


def note_literal_words(words: Sequence[str]) -> None:
    """Say which words of an unquoted command look like shell syntax, which they are not."""
    if len(words) < 2 or is_shell_line(words[0]):
        return
    literal = [word for word in words[1:] if _SHELL_SYNTAX.fullmatch(word)]
    if literal:
        note(
            f"{', '.join(literal)}: passed to {words[0]} literally; "
            "put the whole command in quotes to let a shell interpret it"
        )


def _note_swallowed(words: Sequence[str], options: Mapping[str, click.Option]) -> None:
    # Short flags are too common: `mpirun -n 4` does not mean a namespace.
    visible = {name for name, option in options.items() if not option.hidden}
    names = [word for word in words if word[:2] == "--" and word.partition("=")[0] in visible]
    if names:
        note(
            f"{', '.join(names)}: passed to the training command; "
            f"write {'it' if len(names) == 1 else 'them'} before the command to set "
            f"{'it' if len(names) == 1 else 'them'} for the job"
        )


def is_shell_line(word: str) -> bool:
    """Whether a word is a whole command: it has a space."""
    return any(character.isspace() for character in word)
