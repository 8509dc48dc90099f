"""`arena scale JOB --workers N`: change how many replicas a job has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import changes, find
from muster.cli.cluster import Where, cluster_options
from muster.cli.output import called, note
from muster.errors import MusterError, UsageError
from muster.jobs.build import resize
from muster.jobs.build.values import LARGEST
from muster.jobs.view import RUNNING, view

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.kube.blocking import BlockingClient


@click.command(name="scale")
@find.name_argument()
@click.option(
    "--workers", type=click.IntRange(0, LARGEST), help="Number of workers, as submit counts them."
)
@click.option("--ps", type=click.IntRange(0, LARGEST), help="Number of parameter servers.")
@find.type_option
@cluster_options
def command(where: Where, name: str, workers: int | None, ps: int | None, type_: str) -> None:
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
        job, seen = called(raw), view(raw, [])
        if seen.over:
            raise MusterError(f"{job} has {seen.status.lower()} already and cannot be scaled")
        made = operations(raw, wanted)
        changes.patched(client, kind, raw, made)
        if seen.status == RUNNING and any("/template/" in row["path"] for row in made):
            note("instances that run keep the former numbers in their environment and labels")
        return f"{job} scaled"

    changes.each(where, [name], type_, change)


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
    return resize.operations(raw, before, after)


def _parts(raw: Raw) -> list[resize.Part]:
    """Every role and where it stands."""
    spec = raw.get("spec") or {}
    for field, value in spec.items():
        if not field.lower().endswith("replicaspecs"):
            continue
        if isinstance(value, dict):
            return [
                resize.Part(role.lower(), f"/spec/{field}/{role}", body or {})
                for role, body in value.items()
            ]
        if isinstance(value, list):
            return [
                resize.Part(
                    str(row.get("tfReplicaType") or "Chief").lower(), f"/spec/{field}/{i}", row
                )
                for i, row in enumerate(value)
            ]
    return [resize.Part("worker", "/spec", spec)] if "replicas" in spec else []
