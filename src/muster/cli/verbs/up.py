"""`arena up`: start the local cluster, here or in the background.

`--detach` starts the same command as a daemon and returns when the cluster is ready. `up` makes the
local cluster the one that commands use, says so, and `down` puts the former choice back.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from muster.cli.show.output import note, wait_until
from muster.client.target import STARTED_NOW, Cluster, local_cluster, no_cluster
from muster.errors import MusterError, UsageError
from muster.local.home import Home

START_PATIENCE = 60.0


@click.command(name="up")
@click.option("--detach", is_flag=True, help="Run in the background and return when it is ready.")
@click.option("--nodes", type=click.IntRange(1, 1000), help="Number of nodes  [default: 1]")
@click.option("--gpus-per-node", type=click.IntRange(0), help="Declare so many GPUs per node.")
@click.option("--cpus-per-node", type=click.IntRange(1), help="Declare so many CPUs per node.")
@click.option("--memory-per-node", help="Declare so much memory per node, e.g. 8Gi.")
@click.option(
    "--data-dir", type=Path, help="Where pods and objects live  [default: in MUSTER_HOME]"
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port of the API  [default: a free one]"
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "namespaces", "plain"]),
    help="How pods are run; plain needs no namespaces  [default: auto]",
)
@click.option("--python", help="Python interpreter of the pods  [default: the one running this]")
@click.option("--log-format", type=click.Choice(["human", "json"]), default="human")
def command(detach: bool, log_format: str, **settings: Any) -> None:
    """Start the local cluster on this machine.

    It has one node with what the machine has; --nodes and --gpus-per-node declare more, for trying
    things out.

    \b
    Examples:
      arena up --detach
      arena up --nodes 4 --gpus-per-node 2
    """
    if detach:
        start_detached(settings, log_format)
    else:
        _serve(settings, log_format)


def start_automatically() -> Cluster:
    """Start the local cluster because a verb needs one and none is configured anywhere."""
    if os.environ.get("CI"):
        raise no_cluster("In CI the local cluster is not started by itself.")
    note("no cluster is configured: starting the local one (arena down stops it)")
    start_detached({}, "human")
    return local_cluster(Home.of_user(), STARTED_NOW)


def start_detached(settings: dict[str, Any], log_format: str) -> None:
    """Start the daemon and wait until it is ready; its log tells why if it is not."""
    place = Home.of_user()
    flags = _flags(settings)
    pid = place.running()
    if pid is not None:
        _already_up(pid, flags)
        return
    place.make()
    command_line = [sys.executable, "-m", "muster", "up", f"--log-format={log_format}", *flags]
    with place.log.open("ab") as log:
        daemon = subprocess.Popen(
            command_line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    _wait(place, daemon)
    facts = place.facts() or {}
    if facts.get("pid") not in (None, daemon.pid):
        _already_up(facts["pid"], flags)  # somebody else started one at the same moment
        return
    note(f"local cluster is up: {facts.get('url')} (pid {daemon.pid}); commands now use it")
    if facts.get("note"):
        note(facts["note"])


def _flags(settings: dict[str, Any]) -> list[str]:
    """The settings that were given, as they would be typed."""
    given = {name: value for name, value in settings.items() if value is not None}
    return [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]


def _already_up(pid: int, flags: list[str]) -> None:
    if flags:
        raise UsageError(
            f"the local cluster is already up (pid {pid}), so {' '.join(flags)} has no effect",
            hint="`arena down` first, then `arena up` with these flags.",
        )
    note(f"the local cluster is already up (pid {pid})")


def _wait(place: Home, daemon: subprocess.Popen[bytes]) -> None:
    def settled() -> bool:
        facts = place.facts()
        if facts is not None and facts["pid"] == daemon.pid:
            return True
        # Ours has ended: because of one that is up or coming up, or for good.
        return daemon.poll() is not None and (facts is not None or place.running() is None)

    ready = wait_until(settled, START_PATIENCE, "starting the local cluster …")
    if daemon.poll() is not None and place.facts() is None:
        raise MusterError("the local cluster did not start", hint=_tail(place.log))
    if not ready:
        daemon.terminate()
        raise MusterError(
            f"the local cluster was not ready after {START_PATIENCE:g} s", hint=_tail(place.log)
        )


def _tail(log: Path, lines: int = 5) -> str:
    text = log.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join([f"The end of {log}:", *text])


def _serve(settings: dict[str, Any], log_format: str) -> None:
    import uvloop

    from muster.local.up import Settings, serve
    from muster.observe import logging_setup

    logging_setup.setup(format=log_format)
    home = Home.of_user()
    chosen = Settings(home, **{key: value for key, value in settings.items() if value is not None})

    def ready(url: str) -> None:
        home.choose_local()
        note(f"local cluster is ready: {url}; commands now use it (arena down stops it)")
        if said := (home.facts() or {}).get("note"):
            note(said)

    uvloop.run(serve(chosen, ready))
