"""`arena use`: choose the cluster that commands talk to, and store the choice."""

from __future__ import annotations

import click

from muster.cli.show.messages import note
from muster.client.target import Target, cluster_of_choice, find_cluster, no_cluster
from muster.local.home import Home


@click.command(name="use")
@click.argument("cluster", required=False)
def command(cluster: str | None) -> None:
    """Choose the cluster: local, kube or kube:CONTEXT; without an argument, print the choice.

    \b
    Examples:
      arena use local
      arena use kube:production
    """
    if cluster is not None:
        cluster_of_choice(cluster)  # an unusable choice is an error and not stored
        Home.of_user().choose(cluster)
    selected = find_cluster(Target())
    note(f"{no_cluster()}; `arena up` starts it" if selected is None else str(selected))
