"""Arguments of the Python API as the commands' options: of `submit`, of `logs`, and durations.

The table of flags is the only list of the arguments of `submit`. A value is turned into the text
that the same flag has on a command line and read from there, so that a job has one form, wherever
it is submitted from.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from os import PathLike, fspath
from typing import Any, TypedDict

from kubekit.errors import UsageError, no_such
from kubekit.request_errors import AlreadyExists
from muster.client.logs.pod_log import LogOptions
from muster.client.submit.job_file import flag_value, flags_by_key
from muster.contract.job_kinds import TYPE_ALIASES
from muster.jobs.build.flag_values import seconds as seconds_of_text
from muster.jobs.build.flags import BY_TYPE, Submission, flags_of


def kind_of(word: str) -> type[Submission]:
    """The kind of job that `pytorch`, `tf`, `mpi`, `jax` or `PyTorchJob` means."""
    word = str(word)
    type_ = TYPE_ALIASES.get(word.lower(), word.lower())
    if type_ not in BY_TYPE:
        raise UsageError(
            no_such("kind of job", word, [*BY_TYPE, *TYPE_ALIASES]),
            hint='Write "tf", "mpi", "pytorch" or "jax".',
        )
    return BY_TYPE[type_]


def fields_of(
    kind: type[Submission],
    command: str | Sequence[str],
    arguments: Mapping[str, Any],
    *,
    call: str = "submit",
) -> dict[str, Any]:
    """The fields of the submission; an argument that is None is not given.

    `call` is the function that has these arguments.
    """
    flags = flags_by_key(kind)
    fields: dict[str, Any] = {"command": (_command(command),)}
    for name, value in arguments.items():
        if name not in flags:
            raise UsageError(f"{call}() has {_no_such_argument(kind, name)}")
        if value is not None:
            fields[flags[name].field] = flag_value(name, flags[name], _text(name, value))
    if "name" not in fields:
        raise UsageError(f"{call}() needs the argument name")
    return fields


def _no_such_argument(kind: type[Submission], name: str) -> str:
    others = [
        other.job_kind.trainer.removesuffix("job")
        for other in BY_TYPE.values()
        if name in (flag.field for flag in flags_of(other))
    ]
    if others:
        return f"the argument {name} only for {' and '.join(others)} jobs"
    known = ["command", *(flag.field for flag in flags_of(kind))]
    return no_such("argument", name, known)


def _command(command: str | Sequence[str]) -> str:
    """The line for the shell; words are quoted, so that each stays one argument."""
    if isinstance(command, bytes) or not isinstance(command, Sequence):
        raise UsageError(f"command is {command!r}; write a string or a list of words")
    line = command if isinstance(command, str) else shlex.join(map(str, command))
    if not line.strip():
        raise UsageError(
            "the training command is missing", hint='For example command="python train.py"'
        )
    return line


def _text(name: str, value: object) -> Any:
    """The value as it is written after its flag."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes) or value is None:
        raise UsageError(f"{name} is {value!r}; write a string")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Mapping):
        return {str(key): _text(name, item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [_text(name, item) for item in value]
    return str(value)


_FLAG = re.compile(r"(--(?:no-)?[a-zA-Z][\w-]*)(?:=([\w./:=-]*\w))?")
"""A flag, perhaps with its value."""


@contextmanager
def errors_in_python(kind: type[Submission]) -> Iterator[None]:
    """Errors that name a flag name the argument instead: `name="a"`, not `--name=a`."""
    names = {flag.spelling: flag.field for flag in flags_of(kind)}

    def argument(match: re.Match[str]) -> str:
        flag, value = match.groups()
        if flag not in names:
            return match[0]
        if value is None:
            return names[flag]
        number = re.fullmatch("[0-9]+", value)
        return f"{names[flag]}={value}" if number else f'{names[flag]}="{value}"'

    def in_python(text: str) -> str:
        return _FLAG.sub(argument, text)

    try:
        yield
    except UsageError as error:
        raise type(error)(in_python(str(error)), hint=in_python(error.hint)) from None
    except AlreadyExists as error:
        error.hint = in_python(error.hint)
        raise


Duration = str | float | timedelta
"""`"2h"`, `90` (seconds) or `timedelta(minutes=5)`."""


def seconds_of(name: str, value: Duration | None) -> float:
    """The duration in seconds; without one, infinity."""
    if value is None:
        return math.inf
    if isinstance(value, timedelta):
        value = value.total_seconds()
    hint = f'Write {name}="2h", "10m" or seconds.'
    if isinstance(value, str):
        try:
            return float(seconds_of_text(name, value))
        except UsageError as error:
            raise UsageError(str(error), hint=hint) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name}={value!r} is not a duration", hint=hint)
    return float(value)


class LogArguments(TypedDict, total=False):
    """The arguments that choose the container and the part of its log."""

    container: str
    tail: int | None
    since: Duration | None
    timestamps: bool
    previous: bool


def log_options(given: LogArguments, *, follow: bool) -> LogOptions:
    """The options with which the log is read."""
    if unknown := given.keys() - LogArguments.__annotations__.keys():
        known = ["follow", "replica", "all_replicas", *LogArguments.__annotations__]
        raise UsageError(f"logs() has {no_such('argument', min(unknown), known)}")
    since, tail = given.get("since"), given.get("tail")
    if tail is not None and not isinstance(tail, int):
        raise UsageError(f"tail is {tail!r}; write a whole number")
    seconds = None if since is None else seconds_of("since", since)
    chosen: dict[str, Any] = {**given, "since": seconds}
    return LogOptions(follow=follow, **chosen)
