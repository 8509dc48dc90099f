"""Command lines as arena's parser reads them: switches with `=true`, old spellings, `-e=K=V`.

An option that is declared with an `old` spelling accepts it with a note on stderr, and shows only
the new one in its help.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click

from muster.cli.show.messages import note
from muster.client.config_file import parse_bool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ArenaOption(click.Option):
    """An option whose old spelling works but is not shown."""

    def __init__(self, *args: Any, old: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old = old

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        shown = record[0].replace(f", {self.old}", "") if self.old else record[0]
        # `--gang / --no-gang` is how click writes it; people write --gang or --gang=false.
        return shown.partition(" / --no-")[0], record[1]


class ArenaCommand(click.Command):
    """A command whose switches may be written `--gang`, `--gang=true` or `--gang=false`.

    As in arena, a word after a bare switch is never its value. If that word is `true` or `false`
    and more words follow, the user meant a value: that is an error, not part of the command. So is
    `--dry-run server`, wherever it stands.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        switches = {
            option.opts[0]: option.secondary_opts[0]
            for option in self._options()
            if option.secondary_opts
        }
        end = args.index("--") if "--" in args else len(args)
        words, rest = args[:end], args[end:]
        self._note_old(words)
        optional = self._optional_values()
        _refuse_loose_values(words, switches, optional)
        shorts = self._shorts()
        plain = [part for word in words for part in _split_short(word, shorts)]
        plain = [f"{word}={optional[word][0]}" if word in optional else word for word in plain]
        try:
            return super().parse_args(ctx, [_switch(word, switches) for word in plain] + rest)
        except click.NoSuchOption as error:
            near = self._near(error.option_name)
            raise click.NoSuchOption(error.option_name, None, near, error.ctx) from None

    def _near(self, given: str) -> list[str]:
        """The nearest flag by any spelling, as it is written now; else flags that begin so."""
        import difflib

        shown = [option for option in self._options() if not option.hidden]
        known = {spelling: option.opts[0] for option in shown for spelling in option.opts}
        near = difflib.get_close_matches(given, known, n=1, cutoff=0.75)
        longer = sorted(word for word in set(known.values()) if word.startswith(f"{given}-"))
        return [known[near[0]]] if near else longer

    def _options(self) -> Iterator[click.Option]:
        return (option for option in self.params if isinstance(option, click.Option))

    def _shorts(self) -> set[str]:
        """One-letter spellings of the options that take a value."""
        return {
            spelling
            for option in self._options()
            if not option.is_flag
            for spelling in option.opts
            if len(spelling) == 2
        }

    def _optional_values(self) -> dict[str, tuple[str, Sequence[str]]]:
        """Options whose value may be left out, as in `--dry-run`: its default and its choices."""
        return {
            spelling: (option.flag_value, option.type.choices)
            for option in self._options()
            if isinstance(option.type, click.Choice) and isinstance(option.flag_value, str)
            for spelling in option.opts
        }

    def _note_old(self, words: list[str]) -> None:
        names = {word.partition("=")[0] for word in words}
        for option in self._options():
            if isinstance(option, ArenaOption) and option.old and option.old in names:
                new = option.opts[0]
                note(f"Flag {option.old} has been deprecated, please use {new} instead")


def _refuse_loose_values(
    words: list[str],
    switches: dict[str, str],
    optional: dict[str, tuple[str, Sequence[str]]],
) -> None:
    for number, (before, word) in enumerate(itertools.pairwise(words), 2):
        loose = before in switches and word in ("true", "false") and number < len(words)
        if loose or (before in optional and word in optional[before][1]):
            raise click.UsageError(f"{before} {word}: its value follows a '=': {before}={word}")


def _split_short(word: str, shorts: set[str]) -> list[str]:
    """`-e=K=V` as `-e K=V`."""
    if word[:2] in shorts and word[2:3] == "=":
        return [word[:2], word[3:]]
    return [word]


def _switch(word: str, switches: dict[str, str]) -> str:
    name, equals, value = word.partition("=")
    if not equals or name not in switches:
        return word
    switch = parse_bool(value)
    if switch is None:
        raise click.UsageError(f"{name}={value}: write {name} or {name}=false")
    return name if switch else switches[name]
