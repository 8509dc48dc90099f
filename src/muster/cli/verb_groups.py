"""The verb table as click groups: aliases, near misses, and verbs of arena that Muster lacks.

`RootGroup` holds all verbs and imports the module of a verb when it is used. `AliasGroup` is for a
verb that has further verbs (`submit tf`, `top node`), `QuickCommand` for a verb that should
start at once.
"""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import nearest
from muster.cli.verb_table import (
    ALIASES,
    UNSUPPORTED,
    VERBS,
    completion_instruction,
    completion_variable,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def _show_help(ctx: click.Context, _: click.Parameter, chosen: bool) -> None:
    if chosen and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_OPTION = click.Option(
    ["--help", "_help"], is_flag=True, is_eager=True, expose_value=False, callback=_show_help,
    help="Show this message and exit.",
)  # fmt: skip


class QuickCommand(click.Command):
    """A command whose `--help` is not translated.

    click looks for a translation of its text before every command, and Python loads `locale`.
    """

    def get_help_option(self, ctx: click.Context) -> click.Option:
        return _HELP_OPTION


class AliasGroup(QuickCommand, click.Group):
    """Named commands, with aliases, and the nearest match for a typo."""

    def __init__(self, *args: Any, aliases: dict[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.aliases = aliases or {}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # The path without the program's name: `submit etjob`.
            path = f"{ctx.command_path} {args[0]}".partition(" ")[2]
            raise click.UsageError(
                UNSUPPORTED.get(path) or self.unknown(ctx, args[0]), ctx
            ) from error

    def unknown(self, ctx: click.Context, word: str) -> str:
        """The message about a word that is not a command of this group."""
        near = nearest(word, [*self.list_commands(ctx), *self.aliases])
        message = f"there is no `{ctx.command_path} {word}`"
        return f"{message}; did you mean `{ctx.command_path} {near}`?" if near else message


def now() -> datetime:
    """The time by the clock of this run, which `main.run` was given."""
    root = click.get_current_context().find_root().command
    assert isinstance(root, RootGroup)
    return root.clock()


class RootGroup(AliasGroup):
    """All verbs of the table, loaded lazily."""

    def __init__(
        self, *args: Any, clock: Callable[[], datetime] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, aliases=ALIASES, **kwargs)
        self.clock = clock or (lambda: datetime.now(UTC))

    def unknown(self, ctx: click.Context, word: str) -> str:
        from muster.cli.other_programs import hint_for

        hint = hint_for(word, [*self.list_commands(ctx), *self.aliases])
        return f"no such verb: {word}; {hint}" if hint else f"no such verb: {word}"

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb.name for verb in VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.aliases.get(cmd_name, cmd_name)
        for verb in VERBS:
            if verb.name == name:
                module = importlib.import_module(verb.module)
                command: click.Command = getattr(module, verb.attribute)
                return command
        return None


def complete(program: str) -> int:
    """Answer the shell when the user presses Tab; the words are in the shell's own variables.

    A question that cannot be answered (no cluster, say) completes nothing and prints nothing.
    """
    from click import shell_completion

    return shell_completion.shell_complete(
        RootGroup(name=program),
        {},
        program,
        completion_variable(program),
        completion_instruction(program),
    )
