"""`muster crds`: CRDs as YAML, to pipe into `kubectl apply -f -`."""

from __future__ import annotations

import click

from kubekit.errors import UsageError, no_such


@click.command(name="crds")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def command(names: tuple[str, ...]) -> None:
    """Print the CRDs of these names as YAML, or all of them.

    \b
    Examples:
      muster crds
      muster crds podgroups.scheduling.x-k8s.io | muster apply -f -
    """
    from muster.contract import crds

    known = {crd["metadata"]["name"]: crd for crd in crds.load_all()}
    for name in names:
        if name not in known:
            raise UsageError(no_such("CRD", name, known), hint="`muster crds` prints all of them.")
    print(crds.as_yaml([known[name] for name in names or known]), end="")
