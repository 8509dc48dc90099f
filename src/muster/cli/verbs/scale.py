"""`arena scale JOB --workers N`: change how many replicas a job has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.api.meta import object_name
from muster.cli import options
from muster.cli.options import cluster_options
from muster.cli.show.messages import note
from muster.client.jobs import changes
from muster.errors import MusterError, UsageError
from muster.jobs.submission import scaling
from muster.jobs.submission.flag_values import LARGEST
from muster.jobs.summary import RUNNING, summarize

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient


@click.command(name="scale")
@options.name_argument()
@click.option(
    "--workers", type=click.IntRange(0, LARGEST), help="Number of workers, as submit counts them."
)
@click.option("--ps", type=click.IntRange(0, LARGEST), help="Number of parameter servers.")
@options.type_option
@cluster_options
def command(target: Target, name: str, workers: int | None, ps: int | None, type_: str) -> None:
    """Change the number of a job's workers or parameter servers.

    Of a PyTorch job the master counts as one of the workers, as it does for submit. A gang that
    started only with all its members wants all of the new number. Instances that run are left
    alone: the new numbers are told to those that start from now on.

    \b
    Example:
      arena scale hello --workers 4
    """
    if workers == 0:
        raise UsageError(
            "--workers must be greater than 0", hint=f"`arena suspend {name}` stops all of them."
        )
    wanted = {role: n for role, n in (("worker", workers), ("ps", ps)) if n is not None}
    if not wanted:
        raise UsageError("say how many: --workers N or --ps N")

    def change(client: BlockingClient, kind: Kind[Raw], raw: Raw) -> str:
        job, seen = object_name(raw), summarize(raw, [])
        if seen.over:
            raise MusterError(f"{job} has {seen.status.lower()} already and cannot be scaled")
        made = operations(raw, wanted)
        changes.patch_job(client, kind, raw, made)
        if seen.status == RUNNING and any("/template/" in row["path"] for row in made):
            note("instances that run keep the former numbers in their environment and labels")
        return f"{job} scaled"

    changes.each_job(target, [name], type_, change)


def operations(raw: Raw, wanted: dict[str, int]) -> list[Raw]:
    """The JSON patch that gives each role its number, in whichever shape the job is written."""
    before = _parts(raw)
    found = [part.role for part in before]
    counts: dict[str, int] = {}
    for role, count in wanted.items():
        if role not in found:
            there = ", ".join(sorted(found)) or "none"
            raise UsageError(f"the job has no {role} replicas; its roles: {there}")
        if role == "worker" and "master" in found:
            if count < 1:
                raise UsageError("--workers counts the master: at least 1")
            count -= 1
        counts[role] = count
    after = [p.with_count(counts[p.role]) if p.role in counts else p for p in before]
    return scaling.operations(raw, before, after)


def _parts(raw: Raw) -> list[scaling.WrittenRole]:
    """Every role and where it stands."""
    spec = raw.get("spec") or {}
    for field, value in spec.items():
        if not field.lower().endswith("replicaspecs"):
            continue
        if isinstance(value, dict):
            return [
                scaling.WrittenRole(role.lower(), f"/spec/{field}/{role}", body or {})
                for role, body in value.items()
            ]
        if isinstance(value, list):
            return [
                scaling.WrittenRole(
                    str(row.get("tfReplicaType") or "Chief").lower(), f"/spec/{field}/{i}", row
                )
                for i, row in enumerate(value)
            ]
    return [scaling.WrittenRole("worker", "/spec", spec)] if "replicas" in spec else []
