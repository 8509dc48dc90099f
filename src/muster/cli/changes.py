"""Changing jobs that are there: the loop shared by `delete`, `suspend`, `resume` and `scale`.

Promise: every name is tried, whatever became of those before it, and the exit code is true: 0 only
if all went well, that of the failure if all failures are of one sort, else 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.meta import Key
from muster.cli import find
from muster.cli.output import note
from muster.errors import MusterError, Unreachable
from muster.kube.request import Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.cli.cluster import Where
    from muster.kube.blocking import BlockingClient


def each(
    where: Where,
    names: Sequence[str],
    type_: str,
    change: Callable[[BlockingClient, Kind[Raw], Raw], str],
) -> None:
    """Do it to every job named, and print the line that each change gives back."""
    cluster = where.cluster()
    cluster.announce()
    space = where.namespace_in(cluster)
    failures: list[MusterError] = []
    with cluster.connect() as client:
        for name in dict.fromkeys(names):
            try:
                kind, raw = find.named(client, Key(space, name), type_)
                print(change(client, kind, raw))
            except Unreachable:
                raise
            except MusterError as error:
                failures.append(error)
    fail(failures, len(names), "jobs")


def fail(failures: Sequence[MusterError], count: int, what: str) -> None:
    """End as the failures tell: all but the last are printed here, the last ends the program."""
    if not failures:
        return
    *others, last = failures
    if len({error.exit_code for error in failures}) > 1:
        others, last = list(failures), MusterError(f"{len(failures)} of {count} {what} failed")
    for error in others:
        note(f"error: {error}", "error")
        if error.hint:
            note(error.hint, "error")
    raise last


def patched(client: BlockingClient, kind: Kind[Raw], raw: Raw, operations: list[Raw]) -> None:
    """Change the job that was looked at: the same object, in the same version."""
    metadata = raw["metadata"]
    same = {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]}
    key = Key(metadata["namespace"], metadata["name"])
    client.patch(kind, key, [same, *operations], how=Patch.JSON)


def called(kind: Kind[Raw], raw: Raw) -> str:
    """`tfjob.kubeflow.org/x`"""
    return f"{kind.kind.lower()}.{kind.group}/{raw['metadata']['name']}"
