"""Write `docs/cli.md`: every verb with its description, arguments and flags, from the code.

    python -m scripts.generate_cli_reference

Run by `make docs`; a test checks that the page is up to date.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli.training_command import SubmitCommand
from muster.cli.verb_groups import AliasGroup, RootGroup
from muster.cli.verb_table import ALIASES, UNSUPPORTED, VERBS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
SHARED = {"namespace", "kubeconfig", "context", "loglevel"}


def page() -> str:
    """The whole page."""
    context = click.Context(RootGroup(name="arena"), info_name="arena")
    lines = [
        "# The `arena` command",
        "",
        "Made from the code by `make docs`. `arena` and `muster` are one program; every verb works",
        "under both names. `arena VERB --help` shows the same on the terminal.",
        "",
        *_contents(),
        *_shared(context),
    ]
    for verb in VERBS:
        command = context.command.get_command(context, verb.name)  # type: ignore[attr-defined]
        lines += _command(click.Context(command, info_name=verb.name, parent=context))
    return "\n".join([*lines, *_absent()]).rstrip() + "\n"


def _contents() -> Iterator[str]:
    for section in dict.fromkeys(verb.section for verb in VERBS):
        names = [f"[{v.name}](#arena-{v.name})" for v in VERBS if v.section == section]
        yield f"**{section}**: {' · '.join(names)}  "
    yield ""


def _shared(context: click.Context) -> list[str]:
    """The flags of every verb that talks to a cluster."""
    listing = context.command.get_command(context, "list")  # type: ignore[attr-defined]
    options = [o for o in listing.params if o.name in SHARED]
    return [
        "## Flags of every verb that talks to a cluster",
        "",
        "They may stand before the verb too. `--debug` shows tracebacks.",
        "",
        *_table(options, click.Context(listing)),
    ]


def _command(context: click.Context) -> list[str]:
    command = context.command
    also = [
        alias for alias, name in {**ALIASES, **_aliases(context)}.items() if name == command.name
    ]
    depth = "##" if context.parent and context.parent.parent is None else "###"
    lines = [f"{depth} {context.command_path}", ""]
    lines += [*_help(command), ""]
    if also:
        lines += [f"Also: {', '.join(f'`{word}`' for word in also)}.", ""]
    usage = " ".join(command.collect_usage_pieces(context))
    lines += ["```", f"{context.command_path} {usage}", "```", ""]
    for heading, options in _option_groups(command):
        own = [option for option in options if option.name not in SHARED and not option.hidden]
        if own:
            lines += [*([f"**{heading}**", ""] if heading else []), *_table(own, context)]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            lines += _command(click.Context(inner, info_name=name, parent=context))
    return lines


def _option_groups(command: click.Command) -> list[tuple[str, list[click.Option]]]:
    if isinstance(command, SubmitCommand):
        return list(command.option_groups())
    return [("", [option for option in command.params if isinstance(option, click.Option)])]


def _aliases(context: click.Context) -> dict[str, str]:
    group = context.parent.command if context.parent else None
    return group.aliases if isinstance(group, AliasGroup) else {}


def _help(command: click.Command) -> list[str]:
    """The docstring; examples and other text after `\\b` become code blocks."""
    prose, *blocks = inspect.cleandoc(command.help or "").split("\b")
    lines = [line.strip() for line in prose.strip().splitlines()]
    for block in blocks:
        first, *rest = (line.strip() for line in block.strip().splitlines())
        if first in ("Example:", "Examples:"):
            lines += ["", "```console", *(f"$ {line}" for line in rest), "```"]
        else:
            lines += ["", "```", first, *rest, "```"]
    return lines


def _table(options: list[click.Option], context: click.Context) -> list[str]:
    if not options:
        return []
    rows = ["| flag | |", "|---|---|"]
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            flag, text = (_escaped(part) for part in record)
            rows.append(f"| `{flag}` | {text} |")
    return [*rows, ""]


def _escaped(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _absent() -> Iterator[str]:
    yield from ("## What arena has and Muster has not", "")
    for sentence in dict.fromkeys(UNSUPPORTED.values()):
        words = [word for word, reason in UNSUPPORTED.items() if reason == sentence]
        yield f"- {', '.join(f'`arena {word}`' for word in words)}: {sentence}."
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
