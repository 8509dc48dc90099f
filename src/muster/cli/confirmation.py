"""Asking before a change of a cluster that is not the local one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kubekit.errors import UsageError
from muster.cli.show.messages import note

if TYPE_CHECKING:
    from muster.client.target import Cluster

NOTHING_CHANGED = "nothing was changed"


def confirm(cluster: Cluster, action: str, *, yes: bool) -> None:
    """Ask whether to act, unless `yes` or on the local cluster; a refusal ends the command."""
    if yes or cluster.local:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"{action} on {cluster.name}: there is no terminal to ask",
            hint="--yes acts without a question.",
        )
    ask(f"{action} on {cluster.name}?")


def ask(question: str) -> None:
    """Ask a question; end the command with 1 unless it is answered yes, with 130 after Ctrl-C."""
    try:
        answer = click.confirm(question, err=True)
    except click.Abort as error:
        interrupted = isinstance(error.__context__, KeyboardInterrupt)
        note(f"\n{NOTHING_CHANGED}")  # the cursor is still behind the question
        raise click.exceptions.Exit(130 if interrupted else 1) from None
    if not answer:
        note(NOTHING_CHANGED)
        raise click.exceptions.Exit(1)
