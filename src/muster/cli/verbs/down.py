"""`arena down`: stop the local cluster and everything that runs on it.

It also works after the daemon was killed: then it stops the pods that are still running. The
objects stay stored: `arena up` reads them again and restarts the jobs that were running.
"""

from __future__ import annotations

import click

from muster import local_daemon
from muster.cli.show.messages import note


@click.command(name="down")
@click.option("--now", is_flag=True, help="Kill the pods without waiting for their grace periods.")
def command(now: bool) -> None:
    """Stop the local cluster, its pods and its network; keep its objects.

    Programs get SIGTERM and their pod's grace period (30 s by default), for instance to save a
    checkpoint.
    """
    local_daemon.stop(note, now=now)
