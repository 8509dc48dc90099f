"""`arena down`: stop the local cluster and everything that runs on it.

Works also after the daemon was killed: the pods that it left running are removed. The objects stay
stored; `arena up` reads them again, and jobs that ran start again.
"""

from __future__ import annotations

import click

from muster.cli.show.messages import note
from muster.client import local_cluster


@click.command(name="down")
def command() -> None:
    """Stop the local cluster, its pods and its network; keep its objects."""
    local_cluster.stop(note)
