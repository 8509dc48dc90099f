"""`muster doctor`: what is wrong with Muster on a cluster, and the smallest fix."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kubekit.telemetry.logging_setup import printable
from muster.cli.options import Target, cluster_options, output_option
from muster.cli.show.table import GREEN, RED, YELLOW, colour, shows_colours
from muster.client.home import Home
from muster.jobs.view.units import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.install.doctor.checks import Finding

COLOURS = {"ok": GREEN, "warning": YELLOW, "error": RED}


@click.command(name="doctor")
@output_option("table", "json", "yaml")
@cluster_options
def command(target: Target, output: str) -> None:
    """Check the cluster, its CRDs, Muster's components and their rights, nodes and gangs.

    Every error has the smallest fix below it: a command, or a rule for a role. The exit code is 1
    if there is an error. Your own rights are checked in the namespace that commands use.

    \b
    Examples:
      muster doctor
      muster doctor -o json
    """
    from muster.install.doctor.checks import examine

    cluster = target.cluster()
    with cluster.connect() as client:
        home = cluster.home or Home.of_user()
        problems = (home.status() or {}).get("problems", ()) if cluster.local else ()
        namespace = target.namespace_in(cluster)
        findings = examine(client, namespace, local=cluster.local, local_problems=problems)
    if output == "table":
        print(f"cluster: {cluster.name} (from {cluster.source})")
        print_findings(findings)
    else:
        import msgspec

        from muster.cli.show.table import json_or_yaml

        print(json_or_yaml(msgspec.to_builtins(findings), output))
    if any(finding.level == "error" for finding in findings):
        raise click.exceptions.Exit(1)


def print_findings(findings: Sequence[Finding]) -> None:
    """One line for each finding, its fix below it, and a summary.

    Texts of the cluster (images, messages of pods) are in the findings: each stays on its line.
    """
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        level = f"{finding.level:<7}"
        level = colour(level, COLOURS[finding.level]) if shows_colours(sys.stdout) else level
        print(f"{level}  {finding.check:<{width}}  {printable(finding.text)}")
        if finding.fix:
            print(f"{'':7}  {'':<{width}}  fix: {printable(finding.fix)}")
    errors, warnings = (
        sum(finding.level == level for finding in findings) for level in ("error", "warning")
    )
    if errors:
        print(count(errors, "error"))
    else:
        print(f"no errors, {count(warnings, 'warning')}" if warnings else "nothing is wrong")
