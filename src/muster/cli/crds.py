"""`muster crds`: every CRD as YAML, to pipe into `kubectl apply -f -`."""

from __future__ import annotations

import click


@click.command(name="crds")
def command() -> None:
    """Print every CRD as YAML."""
    import yaml

    from muster.api import crds

    print(yaml.safe_dump_all(crds.load_all(), sort_keys=False), end="")
