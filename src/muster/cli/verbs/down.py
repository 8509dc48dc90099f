"""`arena down`: stop the local cluster and everything that runs on it.

It also works after the daemon was killed: then it stops the pods that are still running. The
objects stay stored: `arena up` reads them again and restarts the jobs that were running.
"""

from __future__ import annotations

import click

from muster.cli.show.messages import note
from muster.client import local_cluster


@click.command(name="down")
def command() -> None:
    """Stop the local cluster, its pods and its network; keep its objects."""
    local_cluster.stop(note)
