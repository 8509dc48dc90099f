"""`arena down`: stop the local cluster and everything that runs on it.

Works also when the daemon was killed: then what it left running is swept here. The objects stay
stored; `arena up` finds them again.
"""

from __future__ import annotations

import os
import signal
import time

import click

from muster.cli.cluster import home, keep_choice, kept_choice
from muster.cli.output import note
from muster.errors import MusterError
from muster.local.home import Home

PATIENCE = 90.0


@click.command(name="down")
def command() -> None:
    """Stop the local cluster, its pods and its network; keep its objects."""
    place = Home(home())
    pid = place.running()
    if pid is not None:
        _stop(place, pid)
    elif place.data.exists():
        import asyncio

        from muster.local.up import sweep

        asyncio.run(sweep(place))
    former = home() / "use.former"
    if kept_choice() == "local":
        keep_choice(former.read_text().strip() if former.exists() else "")
    former.unlink(missing_ok=True)
    note("local cluster is down" if pid is not None else "no local cluster was up")


def _stop(place: Home, pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    said = time.monotonic() + 1
    while place.running() == pid:
        if time.monotonic() > deadline:
            raise MusterError(
                f"the daemon (pid {pid}) did not stop in {PATIENCE:g} s",
                hint=f"Its log: {place.log}",
            )
        if time.monotonic() > said:
            note("stopping pods …")
            said = deadline
        time.sleep(0.02)
