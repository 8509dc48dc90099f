"""`muster crds`: every CRD as YAML, to pipe into `kubectl apply -f -`."""

from __future__ import annotations

import click


@click.command(name="crds")
def command() -> None:
    """Print every CRD as YAML."""
    from muster.contract import crds

    print(crds.as_yaml(), end="")
