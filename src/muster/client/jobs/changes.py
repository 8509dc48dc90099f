"""Changing jobs that are there: the loop shared by `suspend`, `resume` and `scale`.

Promise: every name is tried, whatever became of those before it; what is changed is the very object
that was looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.meta import Key, key_of
from muster.cli.failures import Failures
from muster.cli.show.messages import note
from muster.client.jobs import lookup
from muster.kube.request import PatchType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient


def each_job(
    target: Target,
    names: Sequence[str],
    type_: str,
    change: Callable[[BlockingClient, Kind[Raw], Raw], str],
) -> None:
    """Do it to every job named, and print the line that each change gives back."""
    cluster = target.cluster()
    note(str(cluster))
    space = target.namespace_in(cluster)
    failures = Failures()
    with cluster.connect() as client:
        for name in dict.fromkeys(names):
            with failures.kept():
                kind, raw = lookup.get_job(client, Key(space, name), type_)
                print(change(client, kind, raw))
    failures.end(len(names), "jobs")


def patch_job(client: BlockingClient, kind: Kind[Raw], raw: Raw, operations: list[Raw]) -> None:
    """Change the job that was looked at, and no other of its name."""
    same = {"op": "test", "path": "/metadata/uid", "value": raw["metadata"]["uid"]}
    client.patch(kind, key_of(raw), [same, *operations], patch_type=PatchType.JSON)
