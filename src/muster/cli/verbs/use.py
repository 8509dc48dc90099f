"""`arena use`: choose the cluster that commands talk to, and store the choice."""

from __future__ import annotations

import click

from muster.cli.show.messages import note
from muster.client.target import Target, choose, no_cluster


@click.command(name="use")
@click.argument("cluster", required=False)
def command(cluster: str | None) -> None:
    """Choose the cluster: local, kube or kube:CONTEXT; without an argument, print the choice.

    Contexts are those that kubectl knows: of the files in $KUBECONFIG, or of ~/.kube/config.

    \b
    Examples:
      arena use local
      arena use kube:production
    """
    if cluster is not None:
        choose(cluster)
    selected = Target().find()
    if selected is None:
        error = no_cluster()
        note(f"{error}: {error.hint}")
    else:
        note(str(selected))
    if cluster is not None and selected is not None and selected.source == "$KUBECONFIG":
        note("$KUBECONFIG is used before this choice; `unset KUBECONFIG` to use the choice", "warn")
