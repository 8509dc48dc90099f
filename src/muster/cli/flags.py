"""The flags of `arena submit`, as tables: name, old spelling, type, default, help.

Used by `cli/submit.py`. A flag fills the field of the same name in `jobs/build.py`, whose defaults
are the flags' defaults. Old camelCase spellings are accepted and hidden from the help.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from muster.jobs import build

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


class Flag(NamedTuple):
    """One row. The type and the default come from the field of the same name."""

    spelling: str
    help: str
    old: str = ""
    short: str = ""
    field: str = ""


SHARED = (
    Flag("--name", "Name of the job."),
    Flag("--image", "Container image of every role."),
    Flag("--gpus", "GPUs of each worker."),
    Flag("--device", "Other device of each replica, NAME=AMOUNT.  [repeatable]"),
    Flag("--workers", "Number of workers."),
    Flag("--retry", "Restart replicas that fail, at most so often."),
    Flag("--working-dir", "Working directory of the command.", old="--workingDir"),
    Flag("--env", "Environment variable, KEY=VALUE.  [repeatable]", short="-e"),
    Flag("--data", "Volume claim to mount, CLAIM:/path.  [repeatable]", short="-d"),
    Flag("--data-dir", "Host directory to mount, /host[:/path].  [repeatable]", old="--dataDir"),
    Flag("--annotation", "Annotation, KEY=VALUE.  [repeatable]", short="-a"),
    Flag("--label", "Label, KEY=VALUE.  [repeatable]", short="-l"),
    Flag("--rdma", "Ask for RDMA."),
    Flag("--gang", "Start all replicas together or none."),
    Flag("--priority", "Priority class of the pods.", short="-p"),
    Flag("--toleration", "KEY=VALUE:EFFECT,Equal|Exists, or all.  [repeatable]"),
    Flag("--selector", "Node label to run on, KEY=VALUE.  [repeatable]"),
    Flag("--image-pull-secret", "Secret to pull the image with.  [repeatable]"),
    Flag("--image-pull-policy", "Always, IfNotPresent or Never."),
    Flag("--shell", "Shell that runs the command."),
    Flag("--scheduler", "Scheduler of the pods."),
    Flag("--hostNetwork", "Use the host's network.", field="host_network"),
    Flag("--hostIPC", "Use the host's IPC namespace.", field="host_ipc"),
    Flag("--hostPID", "Use the host's PID namespace.", field="host_pid"),
    Flag("--share-memory", "Size of /dev/shm."),
    Flag(
        "--clean-task-policy",
        "Pods deleted at the end: Running, All or None.",
        old="--cleanTaskPolicy",
    ),
    Flag("--running-timeout", "Fail the job after this time, e.g. 1h30m."),
    Flag("--ttl-after-finished", "Delete the job this long after its end."),
)

_WORDS = {"cpu": "CPUs", "memory": "Memory"}
_ROLES = (("worker", "worker"), ("ps", "ps"), ("chief", "Chief"), ("evaluator", "evaluator"))

TENSORFLOW = (
    Flag("--worker-image", "Image of workers, chief and evaluator.", old="--workerImage"),
    Flag("--ps-image", "Image of the parameter servers.", old="--psImage"),
    Flag("--ps", "Number of parameter servers."),
    Flag("--ps-gpus", "GPUs of each parameter server."),
    Flag("--chief", "Add a chief."),
    Flag("--evaluator", "Add an evaluator."),
    Flag("--chief-port", "Port of the chief.", old="--chiefPort"),
    Flag("--worker-port", "Port of the workers.", old="--workerPort"),
    Flag("--ps-port", "Port of the parameter servers.", old="--psPort"),
    *(
        Flag(f"--{role}-{what}", f"{_WORDS[what]} of each {role}.", old=f"--{old}{what.title()}")
        for role, old in _ROLES
        for what in ("cpu", "memory")
    ),
    *(
        Flag(f"--{role}-{what}-limit", f"{_WORDS[what]} limit of each {role}.")
        for role, _ in _ROLES
        for what in ("cpu", "memory")
    ),
    *(
        Flag(f"--{role}-selector", f"Node label for {role} only, KEY=VALUE.  [repeatable]")
        for role, _ in _ROLES
    ),
    Flag("--success-policy", "ChiefWorker or AllWorkers."),
)


def shared(command: F) -> F:
    """The flags of every kind, and those about what submit does with the job."""
    command = click.option("--output", "-o", default="", help="With --dry-run: yaml or json.")(
        command
    )
    command = click.option("--dry-run", is_flag=True, help="Print the job instead of creating it.")(
        command
    )
    return _add(command, SHARED, build.Submission)


def tensorflow(command: F) -> F:
    """The flags of `submit tf`."""
    return _add(command, TENSORFLOW, build.TensorFlow)


def _add(command: F, rows: tuple[Flag, ...], settings: type[build.Submission]) -> F:
    known = {field.name: field for field in fields(settings)}
    for row in reversed(rows):
        name = row.field or row.spelling.lstrip("-").replace("-", "_")
        command = _option(row, name, known[name].default)(command)
    return command


def _option(row: Flag, name: str, default: object) -> Callable[[F], F]:
    how: dict[str, Any] = {"help": row.help, "cls": Option, "old": row.old}
    if isinstance(default, bool):
        switch = f"{row.spelling}/--no-{row.spelling.lstrip('-')}"
        return click.option(switch, name, default=default, **how)
    spellings = [part for part in (row.spelling, row.old, row.short) if part]
    if default is MISSING:
        how["required"] = True
    elif default == ():
        how |= {"multiple": True}
    else:
        how |= {"default": default, "show_default": default not in ("", 0)}
    return click.option(*spellings, name, **how)


class Option(click.Option):
    """An option whose old spelling works but is not shown."""

    def __init__(self, *args: Any, old: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old = old

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None or not self.old:
            return record
        return record[0].replace(f", {self.old}", ""), record[1]


class Command(click.Command):
    """A command whose switches may be written `--gang`, `--gang=true` or `--gang=false`.

    As in arena, a word after a bare switch is never its value: it belongs to the training command.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        switches = {
            option.opts[0]: option.secondary_opts[0]
            for option in self.params
            if isinstance(option, click.Option) and option.secondary_opts
        }
        return super().parse_args(ctx, [_switch(word, switches) for word in args])


def _switch(word: str, switches: dict[str, str]) -> str:
    name, equals, value = word.partition("=")
    if not equals or name not in switches:
        return word
    if value.lower() in ("true", "t", "1"):
        return name
    if value.lower() in ("false", "f", "0"):
        return switches[name]
    raise click.UsageError(f"{name}={value}: write {name} or {name}=false")
