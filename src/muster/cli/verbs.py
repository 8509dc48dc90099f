"""The click side of the verb table: a group that imports a verb when it is asked for.

Called by `main` only. A verb's module is named like the verb and has one click command `command`.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import click

from muster.cli.main import ALIASES, VERBS


class Verbs(click.Group):
    """All verbs, loaded lazily, with the nearest match for a typo."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb.name for verb in VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        verb = next((v for v in VERBS if v.name == name), None)
        if verb is None:
            return None
        module = importlib.import_module(f"muster.cli.{verb.name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(
                unknown("verb", args[0], self.list_commands(ctx)), ctx
            ) from error


def unknown(what: str, given: str, known: list[str]) -> str:
    """`no such verb: gett; did you mean get?`"""
    near = difflib.get_close_matches(given, known, n=1)
    return f"no such {what}: {given}" + (f"; did you mean {near[0]}?" if near else "")


class SubVerbs(click.Group):
    """A verb that has kinds of its own (`submit tf`), with aliases and nearest match."""

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
            known = [*self.list_commands(ctx), *self.aliases]
            raise click.UsageError(unknown("kind", args[0], known), ctx) from error
