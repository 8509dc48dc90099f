"""`arena down`: stop the local cluster and everything that runs on it.

Works also when the daemon was killed: then what it left running is swept here. The objects stay
stored; `arena up` finds them again, and jobs that ran start again.
"""

from __future__ import annotations

import os
import signal

import click

from muster.cli.show.output import note, wait_until
from muster.errors import MusterError
from muster.local.home import Home

PATIENCE = 90.0


@click.command(name="down")
def command() -> None:
    """Stop the local cluster, its pods and its network; keep its objects."""
    place = Home.of_user()
    pid = place.running()
    if pid is not None:
        _stop(place, pid)
        note("local cluster is down")
    elif place.was_killed():
        _sweep(place)
        note("no local cluster was up; what a killed one had left is removed")
    else:
        note("no local cluster was up")
    place.choose_former()


def _stop(place: Home, pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    if not wait_until(lambda: not _lives(pid), PATIENCE, "stopping pods …"):
        raise MusterError(
            f"the daemon (pid {pid}) did not stop in {PATIENCE:g} s", hint=f"Its log: {place.log}"
        )


def _lives(pid: int) -> bool:
    """Whether the process is there; one that only waits for its parent to look is not."""
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _sweep(place: Home) -> None:
    import asyncio

    from muster.local.up import sweep

    asyncio.run(sweep(place, place.last_data()))
