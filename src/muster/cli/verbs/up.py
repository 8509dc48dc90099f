"""`arena up`: start the local cluster, here or in the background.

`--detach` starts the same command as a daemon and returns when the cluster is ready. From then on
commands use the local cluster; `arena down` restores the former choice.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import UsageError
from kubekit.objects.quantity import MAX_INT64, InvalidQuantity, parse_whole
from muster.cli import dashboard_url
from muster.cli.show.messages import log_lines, note
from muster.client import daemon_start
from muster.client.home import Home
from muster.local_daemon import check_descriptor_limit

if TYPE_CHECKING:
    from collections.abc import Callable


def _memory(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Refuse an amount that is not memory: the node would never become ready with it."""
    try:
        possible = text is None or 0 < parse_whole(text) < MAX_INT64
    except InvalidQuantity:
        possible = False
    if not possible:
        raise UsageError(f"--memory-per-node {text!r} is invalid", hint="Write 8Gi or 500Mi.")
    return text


@click.command(name="up")
@click.option("--detach", is_flag=True, help="Run in the background and return when it is ready.")
@click.option("--nodes", type=click.IntRange(1, 1000), help="Number of nodes  [default: 1]")
@click.option(
    "--gpus-per-node", type=click.IntRange(0), help="Declare this number of GPUs per node."
)
@click.option(
    "--cpus-per-node", type=click.IntRange(1), help="Declare this number of CPUs per node."
)
@click.option(
    "--memory-per-node", callback=_memory, help="Declare this amount of memory per node, e.g. 8Gi."
)
@click.option(
    "--data-dir", type=Path, help="Where pods and objects live  [default: in MUSTER_HOME]"
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port of the API  [default: the last one, else a free one]",
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "namespaces", "plain"]),
    help="How pods are run; plain needs no namespaces  [default: auto]",
)
@click.option(
    "--python",
    help="Python of pods that `submit` did not create  [default: the Python of arena]",
)
@click.option(
    "--isolated",
    is_flag=True,
    default=None,
    help="Give jobs private directories instead of the user's own.",
)
@click.option("--no-dashboard", is_flag=True, default=None, help="Do not serve the dashboard.")
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    help="Port of the dashboard  [default: the last one, else 7080 or the next free one]",
)
@click.option(
    "--temporary",
    is_flag=True,
    default=None,
    hidden=True,
    help="Stop when standard input ends, and then delete MUSTER_HOME.",
)
@click.option("--log-format", type=click.Choice(["human", "json"]), default="human")
def command(detach: bool, log_format: str, **settings: Any) -> None:
    """Start the local cluster on this machine.

    Ctrl-C stops it and its pods, and so does closing the terminal; with --detach it runs until
    `arena down`. Its objects stay stored, and the next `up` starts its jobs again.

    It has one node with the CPUs, memory and GPUs of the machine; --nodes and --gpus-per-node
    declare more, for trying things out.

    \b
    Examples:
      arena up --detach
      arena up --nodes 4 --gpus-per-node 2
    """
    if warning := check_descriptor_limit():
        note(warning)
    if detach:
        daemon_start.start(_flags(settings), note, log_format=log_format)
        _note_dashboard(Home.of_user())
    else:
        _serve(settings, log_format)


def _flags(settings: dict[str, Any]) -> list[str]:
    """The settings that were given, as words of a command line."""
    given = {name: value for name, value in settings.items() if value is not None}
    return [
        f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
        for name, value in given.items()
    ]


def _serve(settings: dict[str, Any], log_format: str) -> None:
    """Run the cluster until a signal; exit code 130 if it comes before the cluster is ready."""
    started = False

    def on_ready(url: str) -> None:
        nonlocal started
        started = True
        home = Home.of_user()
        home.choose_local()
        with contextlib.suppress(OSError):  # the disk of the log is full: the cluster runs on
            note(f"local cluster is ready: {url}; commands now use it (arena down stops it)")
            if text := (home.status() or {}).get("note"):
                note(text)
            # A log file must not have a token.
            _note_dashboard(home, with_token=sys.stderr.isatty())

    try:
        _run(settings, log_format, on_ready)
    except KeyboardInterrupt:  # until the cluster handles signals itself
        if started:
            raise
    if not started:
        note("interrupted: the local cluster was not started")
        raise click.exceptions.Exit(130)
    note("local cluster is down")


def _note_dashboard(home: Home, *, with_token: bool = True) -> None:
    url = dashboard_url.of_local_cluster(home)
    if url and with_token:
        note(f"dashboard: {url} (valid once, for ten minutes; `arena open` opens a new one)")
    elif url:
        note(f"dashboard: {url.partition('?')[0]} (`arena open` opens it)")


def _run(settings: dict[str, Any], log_format: str, on_ready: Callable[[str], None]) -> None:
    import uvloop

    from kubekit.telemetry import logging_setup
    from muster.local_daemon import Settings, remove_home, serve

    home = Home.of_user()
    logging_setup.setup(format=log_format, file=logging_setup.BoundedFile.behind_stderr(home.log))
    log_lines(log_format)
    given = {key: value for key, value in settings.items() if value is not None}
    abandoned = False

    def on_abandoned() -> None:
        nonlocal abandoned
        abandoned = True

    watched = on_abandoned if given.pop("temporary", False) else None
    if "data_dir" in given:
        given["data_dir"] = given["data_dir"].absolute()
    flags = shlex.join(_flags(given))
    chosen = Settings(home, dashboard=not given.pop("no_dashboard", False), flags=flags, **given)
    uvloop.run(serve(chosen, on_ready, watched))
    home.choose_former()
    if abandoned:
        remove_home(home)
