"""Asking before a change of a cluster that is not the local one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from muster.errors import UsageError

if TYPE_CHECKING:
    from muster.client.target import Cluster


def confirm(cluster: Cluster, action: str, *, yes: bool) -> None:
    """Ask whether to act, unless `yes` or on the local cluster; a refusal ends the command."""
    if yes or cluster.local:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"{action} on {cluster.name}: there is no terminal to ask",
            hint="--yes acts without a question.",
        )
    if not click.confirm(f"{action} on {cluster.name}?", err=True):
        raise click.Abort
