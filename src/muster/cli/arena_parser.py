"""Command lines as arena's parser reads them: switches with `=true`, old spellings, `-e=K=V`.

arena's flags follow Go's pflag, click's follow getopt. `ArenaCommand` rewrites the words of a
command line into click's spelling before click parses them. An option with an `old` spelling
accepts it with a note on stderr, and shows only the new spelling in its help.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click

from muster.cli.show.messages import note_once
from muster.client.config_file import parse_bool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ArenaOption(click.Option):
    """An option whose old spelling works but is not shown; the help shows it in its `group`."""

    def __init__(self, *args: Any, old: str = "", group: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old = old
        self.group = group

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        text = record[0].replace(f", {self.old}", "") if self.old else record[0]
        # `--gang / --no-gang` is how click writes it; people write --gang or --gang=false.
        return text.partition(" / --no-")[0], record[1]


class ArenaCommand(click.Command):
    """A command whose switches may be written `--gang`, `--gang=true` or `--gang=false`.

    As in arena, a word after a bare switch is never its value. If that word is `true` or `false`
    and more words follow, the user meant a value: that is an error, not part of the command. So is
    `--dry-run server`, wherever it stands.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = options_by_spelling(self)
        end = args.index("--") if "--" in args else len(args)
        words = args[:end]
        refuse_loose_values(words, options)
        plain = [part for word in words for part in _as_click_reads(word, options)]
        try:
            return super().parse_args(ctx, plain + args[end:])
        except click.NoSuchOption as error:
            name, message = error.option_name, None
            of_workers = f"--worker-{name.lstrip('-')}"
            if of_workers in options:  # `--cpu-limit` of a TensorFlow job, which has one per role
                message = f"No such option {name!r}. Did you mean {of_workers!r}?"
            elif other := self.flag_of_another_command(ctx, name):
                message = f"No such option {name!r}: {other}"
            suggestions = None if message else self._suggestions(name)
            raise click.NoSuchOption(name, message, suggestions, error.ctx) from None

    def flag_of_another_command(self, ctx: click.Context, name: str) -> str:
        """The end of a sentence about a flag that only a command beside this one has; or empty."""
        return ""

    def _suggestions(self, given: str) -> list[str]:
        """The current spelling of the nearest flag; else all flags that begin with the text."""
        import difflib

        visible_options = [option for option in options_of(self) if not option.hidden]
        known = {spelling: option.opts[0] for option in visible_options for spelling in option.opts}
        suggestions = difflib.get_close_matches(given, known, n=1, cutoff=0.75)
        longer = sorted(word for word in set(known.values()) if word.startswith(f"{given}-"))
        return [known[suggestions[0]]] if suggestions else longer


def options_of(command: click.Command) -> Iterator[click.Option]:
    return (option for option in command.params if isinstance(option, click.Option))


def options_by_spelling(command: click.Command) -> dict[str, click.Option]:
    return {spelling: option for option in options_of(command) for spelling in option.opts}


def choices_if_optional(option: click.Option) -> Sequence[str]:
    """The values of an option whose value may be left out, as in `--dry-run`; else none."""
    if isinstance(option.type, click.Choice) and isinstance(option.flag_value, str):
        return option.type.choices
    return ()


def refuse_loose_values(words: list[str], options: dict[str, click.Option]) -> None:
    """Refuse `--gang true --name=x`: a switch and its value are one word."""
    for number, (before, word) in enumerate(itertools.pairwise(words), 2):
        option = options.get(before)
        if option is None:
            continue
        loose = option.secondary_opts and word in ("true", "false") and number < len(words)
        if loose or word in choices_if_optional(option):
            message = f"{before} {word}: write {before}={word}, with an equals sign"
            raise click.UsageError(message, click.get_current_context())


def _as_click_reads(word: str, options: dict[str, click.Option]) -> list[str]:
    """One word of the command line in click's spelling."""
    name, equals, value = word.partition("=")
    option = options.get(name)
    if option is None:
        return [word]
    if isinstance(option, ArenaOption) and option.old == name:
        note_once(f"Flag {name} has been deprecated, please use {option.opts[0]} instead")
    if not equals:
        return [f"{name}={option.flag_value}"] if choices_if_optional(option) else [word]
    if option.secondary_opts:
        switch = parse_bool(value)
        if switch is None:
            raise click.UsageError(f"{name}={value}: write {name} or {name}=false")
        return [name if switch else option.secondary_opts[0]]
    # click takes `-e=K=V` for the value `=K=V`.
    return [name, value] if len(name) == 2 and not option.is_flag else [word]
