"""Wrong command lines, hundreds of them, generated from the real verbs and flags.

Each is a correct line with one mistake: a misspelt word, a value of the wrong kind, a missing or a
superfluous word, or a value that no cluster would accept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import click

from muster.cli.verb_groups import RootGroup
from muster.cli.verb_table import ALIASES, UNSUPPORTED, VERBS

RIGHT: dict[str, list[str]] = {
    "submit tfjob": ["--name=x", "--image=i", "--workers=2", "python t.py"],
    "submit mpijob": ["--name=x", "--image=i", "--workers=2", "python t.py"],
    "submit pytorchjob": ["--name=x", "--image=i", "--workers=2", "python t.py"],
    "submit jaxjob": ["--name=x", "--image=i", "--workers=2", "python t.py"],
    "get": ["pods"],
    "explain": ["nope"],
    "logs": ["nope"],
    "attach": ["nope"],
    "wait": ["nope"],
    "delete": ["nope"],
    "suspend": ["nope"],
    "resume": ["nope"],
    "scale": ["nope", "--workers=1"],
    "prune": ["--since=1h"],
    "logviewer": ["nope"],
    "process": ["-f", "/dev/null"],
    "apply": ["-f", "/dev/null"],
    "create": ["-f", "/dev/null"],
    "config set": ["gang", "true"],
    "config get": ["gang"],
    "config unset": ["gang"],
    "completion": ["bash"],
}
"""The arguments that each verb needs; verbs that are not listed need none."""

WRONG_VALUES: tuple[str, ...] = (
    "--name=Upper", "--name=", "--name=-x", "--name=a_b", f"--name={'x' * 80}", "--name=a/b",
    "--name=é", "--gpus=-1", "--gpus=some", "--gpus=1.5", "--workers=-2", "--workers=two",
    "--env=NOEQUALS", "--env==v", "--data=claim", "--data=claim:relative", "--data=c:/",
    "--data-dir=relative", "--annotation=nothing", "--label=nothing", "--label=a b=c",
    "--selector=nothing", "--toleration=gpu", "--device=nvidia.com/gpu=1", "--device=gpu",
    "--device=a/b=many", "--gang=maybe", "--rdma=perhaps", "--image-pull-policy=Sometimes",
    "--sync-mode=hdfs", "--sync-mode=git", "--config-file=/no/such/file", "--share-memory=lots",
    "--clean-task-policy=Some", "--running-timeout=soon", "--ttl-after-finished=never",
    "--retry=-1", "--dry-run=maybe", "--run-as-user=root",
)  # fmt: skip
"""Values that `submit tf` must refuse."""

WRONG_NAMES = ("a/b/c", "cat/x", "pod/", "/x", "Upper", "no such", "x" * 300, "..", "%2e", "ü")
ONE_JOB = ("get", "explain", "logs", "attach", "delete", "suspend", "resume", "wait", "logviewer")


@dataclass(frozen=True)
class Line:
    """A wrong line, and its mistake."""

    words: tuple[str, ...]
    fault: str

    def __str__(self) -> str:
        return f"{self.fault}: {' '.join(self.words)}"[:90]


def lines(count: int, seed: int) -> list[Line]:
    """That number of different wrong lines; the same seed gives the same lines."""
    source = random.Random(seed)
    leaves = dict(_leaves())
    wrong = {line.words: line for line in _named_faults()}
    faults = (_misspelt_verb, _misspelt_flag, _wrong_type, _no_value, _missing, _too_much)
    while len(wrong) < count:
        path = source.choice(list(leaves))
        line = source.choice(faults)(source, path, leaves[path])
        if line is not None:
            wrong.setdefault(line.words, line)
    return list(wrong.values())


def _leaves() -> Iterator[tuple[str, click.Command]]:
    """Every verb that does something, by the words that lead to it."""
    root = RootGroup(name="arena")
    context = click.Context(root, info_name="arena")
    for verb in VERBS:
        command = root.get_command(context, verb.name)
        assert command is not None
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                yield f"{verb.name} {name}", inner
        else:
            yield verb.name, command


def _named_faults() -> Iterator[Line]:
    right = RIGHT["submit tfjob"]
    for value in WRONG_VALUES:
        flag = value.partition("=")[0]
        others = [word for word in right if word.partition("=")[0] != flag]
        yield Line(("submit", "tf", value, *others), "a wrong value")
    for verb in ONE_JOB:
        for name in WRONG_NAMES:
            yield Line((verb, name), "a wrong name")
    for absent in UNSUPPORTED:
        yield Line((*absent.split(), "x"), "not here")


Fault = Callable[[random.Random, str, click.Command], Line | None]


def _right(path: str) -> list[str]:
    return [*path.split(), *RIGHT.get(path, [])]


def _misspelt(source: random.Random, word: str) -> str:
    """The word with a letter doubled, left out or changed."""
    at = source.randrange(len(word))
    change = source.choice((word[at] * 2, "", source.choice("qxzjk")))
    return word[:at] + change + word[at + 1 :]


def _misspelt_verb(source: random.Random, path: str, _: click.Command) -> Line | None:
    words = _right(path)
    words[0] = _misspelt(source, words[0])
    known = {*(verb.name for verb in VERBS), *ALIASES, *UNSUPPORTED, ""}
    if words[0] in known or words[0].startswith("-"):
        return None
    return Line(tuple(words), "a misspelt verb")


def _options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option)]


def _long(option: click.Option) -> str:
    return next((word for word in option.opts if word.startswith("--")), option.opts[0])


def _misspelt_flag(source: random.Random, path: str, command: click.Command) -> Line | None:
    option = source.choice(_options(command) or [None])
    if option is None:
        return None
    flag = "--" + _misspelt(source, _long(option).lstrip("-"))
    known = {
        word
        for option in _options(command)
        for word in (*option.opts, *option.secondary_opts, "--help")
    }
    if flag in (*known, "--", "--debug"):
        return None
    return Line((*path.split(), flag, *RIGHT.get(path, [])), "a misspelt flag")


def _wrong_type(source: random.Random, path: str, command: click.Command) -> Line | None:
    """A word where a number or option of a few words is wanted."""
    checked = [
        option for option in _options(command)
        if not option.is_flag and isinstance(option.type, click.Choice | click.types.IntParamType)
    ]  # fmt: skip
    if not checked:
        return None
    flag = _long(source.choice(checked))
    others = [word for word in RIGHT.get(path, []) if word.partition("=")[0] != flag]
    value = source.choice(("nonsense", "1e3", "--", "ten", "½", "0x10"))
    return Line((*path.split(), f"{flag}={value}", *others), "a value of the wrong kind")


def _no_value(source: random.Random, path: str, command: click.Command) -> Line | None:
    valued = [
        option for option in _options(command) if not option.is_flag and not _optional(option)
    ]
    if not valued:
        return None
    return Line((*_right(path), _long(source.choice(valued))), "a flag without its value")


def _optional(option: click.Option) -> bool:
    """Whether the flag may stand without a value (`--dry-run`)."""
    return bool(getattr(option, "_flag_needs_value", False))


def _missing(source: random.Random, path: str, _: click.Command) -> Line | None:
    if path not in RIGHT or path == "get":
        return None
    needed = RIGHT[path]
    dropped = {
        "submit": [word for word in needed if not word.startswith("--name")],
        "config set": needed[:1],
        "scale": needed[:1],
    }
    others = dropped.get(path) or dropped.get(path.partition(" ")[0] if " " in path else "") or []
    return Line((*path.split(), *others), "something is missing")


def _too_much(source: random.Random, path: str, command: click.Command) -> Line | None:
    if any(isinstance(option, click.Argument) and option.nargs == -1 for option in command.params):
        return None
    words = [source.choice(("more", "--", "extra words")) for _ in range(source.randint(3, 4))]
    return Line((*_right(path), *words, "more", "and", "more"), "too much")
