"""`arena suspend JOB…` and, in the other direction, `arena resume JOB…`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.api.meta import object_name
from muster.cli import options
from muster.cli.options import cluster_options
from muster.client.jobs import changes
from muster.errors import MusterError
from muster.jobs.summary import summarize

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient


@click.command(name="suspend")
@options.name_argument(many=True)
@options.type_option
@cluster_options
def command(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Stop jobs: their pods end and give their room back, the jobs stay.

    \b
    Example:
      arena suspend hello
    """
    changes.each_job(target, names, type_, suspend)


def suspend(client: BlockingClient, kind: Kind[Raw], raw: Raw) -> str:
    return set_suspended(client, kind, raw, on=True)


def set_suspended(client: BlockingClient, kind: Kind[Raw], raw: Raw, *, on: bool) -> str:
    """Suspend or resume one job; the line says whether it was so already."""
    name, seen = object_name(raw), summarize(raw, [])
    if seen.over:
        what = "stop" if on else "resume"
        raise MusterError(f"{name} has {seen.status.lower()} already: there is nothing to {what}")
    word = "suspended" if on else "resumed"
    spec = raw.get("spec") or {}
    policy = spec.get("runPolicy")
    if bool((policy or {}).get("suspend", spec.get("suspend"))) is on:
        return f"{name} already {word}"
    if isinstance(policy, dict):
        operation: Raw = {"op": "add", "path": "/spec/runPolicy/suspend", "value": on}
    else:
        operation = {"op": "add", "path": "/spec/runPolicy", "value": {"suspend": on}}
    changes.patch_job(client, kind, raw, [operation])
    return f"{name} {word}"
