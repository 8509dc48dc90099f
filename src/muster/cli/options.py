"""Options and arguments that several verbs share.

`cluster_options` may also stand before the verb (`arena -n team list`); the verb receives them as
one `target`.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import MusterError
from muster.cli.show.messages import LEVELS, debug, set_loglevel
from muster.cli.verb_table import Tracebacks
from muster.client.target import Target as Target  # verbs annotate their `target` with it

if TYPE_CHECKING:
    from collections.abc import Callable

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """These options as one decorator; the help shows the last one first."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in options:
            command = option(command)
        return command

    return decorated


_CLUSTER = (
    click.option("--arena-namespace", "--arenaNamespace", hidden=True, help="Nothing lives there."),
    click.option(
        "--loglevel", type=click.Choice(LEVELS), help="Lines to show on stderr; debug: requests."
    ),
    click.option("--context", help="Context of the kubeconfig to use."),
    click.option("--kubeconfig", "--config", metavar="FILE", help="Kubeconfig file to use."),
    click.option("--namespace", "-n", help="Namespace to use."),
)
_NAMES = ("namespace", "kubeconfig", "context", "loglevel", "arena_namespace")


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which cluster and namespace; the verb receives one `target: Target`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        # An option after the verb takes precedence over the same option before it.
        root = click.get_current_context().find_root()
        before = root.obj or {}
        after = {name: kwargs.pop(name) for name in _NAMES}
        given = {name: before.get(name) if after[name] is None else after[name] for name in _NAMES}
        root.obj = given  # for a verb of this verb: `submit -n team tf` means `submit tf -n team`
        set_loglevel(given["loglevel"] or "info")
        return command(*args, target=_target(given), **kwargs)

    return together(*_CLUSTER)(wrapped)


def _target(given: dict[str, Any]) -> Target:
    path = Path(given["kubeconfig"]).expanduser() if given.get("kubeconfig") else None
    log = debug if given.get("loglevel") == "debug" else None
    return Target(path, given.get("context"), given.get("namespace") or "", log)


def allow_before_verb(group: click.Group) -> None:
    """Let the cluster's options stand before the verb too: `arena -n team list`."""

    @click.pass_context
    def remember(ctx: click.Context, /, **given: Any) -> None:
        _refuse_without_effect(ctx, group, given)
        ctx.obj = given

    for option in reversed(_CLUSTER):
        option(group)
    group.callback = remember


def _refuse_without_effect(ctx: click.Context, group: click.Group, given: dict[str, Any]) -> None:
    """Refuse `arena --context x up`: a verb that talks to no cluster would ignore the option."""
    verb = ctx.invoked_subcommand
    command = group.get_command(ctx, verb) if verb else None
    commands = command.commands.values() if isinstance(command, click.Group) else ()
    own = [option.name for one in (command, *commands) if one for option in one.params]
    unused = [name for name in ("context", "kubeconfig") if given[name] and name not in own]
    if verb and unused:
        raise click.UsageError(f"--{unused[0]} has no effect on `{verb}`, which uses no kubeconfig")


def job_name_completions(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of jobs for the shell; none if the cluster cannot be read."""
    from muster.client.jobs import lookup

    target = _target(ctx.params)
    try:
        cluster = target.cluster()
        with cluster.connect() as client:
            names = lookup.list_names(
                client, target.namespace_in(cluster), ctx.params.get("type_") or ""
            )
    except MusterError:
        return []
    return sorted({name for name in names if name.startswith(incomplete)})


def name_argument(*, required: bool = True, many: bool = False) -> Decorator:
    """The argument JOB, or JOB… for several, each once; the shell completes it."""
    return click.argument(
        "names" if many else "name",
        nargs=-1 if many else 1,
        required=required,
        callback=(lambda _, __, names: tuple(dict.fromkeys(names))) if many else None,
        metavar=("JOB…" if many else "JOB") if required else "[JOB]",
        shell_complete=job_name_completions,
    )


def _show_tracebacks(_: click.Context, __: click.Parameter, chosen: bool) -> None:
    if chosen:
        Tracebacks.shown = True


debug_option = click.option(
    "--debug", is_flag=True, hidden=True, expose_value=False, callback=_show_tracebacks
)
"""For a verb that takes a command: everywhere else `main` removes the word before click sees it."""
type_option = click.option("--type", "-T", "type_", default="", help="tfjob, mpijob, …")
all_namespaces_option = click.option(
    "--all-namespaces", "--allNamespaces", "-A", is_flag=True, help="All namespaces."
)
dry_run_option = click.option(
    "--dry-run", type=click.Choice(["none", "client", "server"]), default="none",
    is_flag=False, flag_value="client", metavar="[client|server]",
    help="client: check and print only. server: let the cluster check, store nothing.",
)  # fmt: skip
objects_option = click.option(
    "--output", "-o", type=click.Choice(["yaml", "json", "name"]), default=None,
    help="Print the objects instead of a line each.",
)  # fmt: skip


DRY_RUN_SUFFIX = {"none": "", "client": " (dry run)", "server": " (server dry run)"}
"""What a line about an object ends with."""


serving_options = together(
    click.option("--log-format", type=click.Choice(["human", "json"]), default="human"),
    click.option("--metrics-host", default="127.0.0.1", help="Address of --metrics-port."),
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        help="Serve /metrics, /healthz and /readyz here.",
    ),
)
"""Of a process that runs until it is stopped: its log and its metrics."""


def output_option(*forms: str) -> Decorator:
    """`--output` with these forms; the first is the default."""
    return click.option(
        "--output", "-o", type=click.Choice(forms), default=forms[0], help="Form of the output."
    )
