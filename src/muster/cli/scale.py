"""`arena scale JOB --workers N`: change how many replicas a job has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import changes, find
from muster.cli.cluster import Where, cluster_options
from muster.cli.output import called
from muster.errors import MusterError, UsageError
from muster.jobs.build.values import LARGEST
from muster.jobs.view import view

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

    Of a PyTorch job the master counts as one of the workers, as it does for submit.

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
        changes.patched(client, kind, raw, operations(raw, wanted))
        return f"{job} scaled"

    changes.each(where, [name], type_, change)


def operations(raw: Raw, wanted: dict[str, int]) -> list[Raw]:
    """The JSON patch that gives each role its number, in whichever shape the job is written."""
    found = {role.lower(): path for role, path in _roles(raw)}
    made = []
    for role, count in wanted.items():
        if role not in found:
            there = ", ".join(sorted(found)) or "none"
            raise UsageError(f"the job has no {role} replicas; its roles: {there}")
        if role == "worker" and "master" in found:
            if count < 1:
                raise UsageError("--workers counts the master: at least 1")
            count -= 1
        made.append({"op": "add", "path": f"{found[role]}/replicas", "value": count})
    return made


def _roles(raw: Raw) -> list[tuple[str, str]]:
    """Every role and where it stands."""
    spec = raw.get("spec") or {}
    for field, value in spec.items():
        if not field.lower().endswith("replicaspecs"):
            continue
        if isinstance(value, dict):
            return [(role, f"/spec/{field}/{role}") for role in value]
        if isinstance(value, list):
            return [
                (str(row.get("tfReplicaType") or "Chief"), f"/spec/{field}/{i}")
                for i, row in enumerate(value)
            ]
    return [("worker", "/spec")] if "replicas" in spec else []
