"""One command for several names or objects: each is tried, even if others fail.

An unreachable cluster ends the command at once, since the remaining names would fail too.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects.meta import Key, object_name
from kubekit.request_errors import Unreachable
from muster.cli.show.messages import note, note_cluster
from muster.client.jobs import lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from muster.client.jobs.lookup import FoundJob
    from muster.client.target import Target


class Failures:
    def __init__(self) -> None:
        self.errors: list[MusterError] = []

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect an error of this block, and let the command continue."""
        try:
            yield
        except Unreachable:
            raise
        except MusterError as error:
            self.errors.append(error)

    def raise_if_any(self, count: int, noun: str) -> None:
        """Raise the collected errors, if there are any.

        All but the last are printed, and the last is raised. If their exit codes differ, all are
        printed, and an error with their number and exit code 1 is raised.
        """
        if not self.errors:
            return
        *others, last = self.errors
        if len({error.cli_exit_code for error in self.errors}) > 1:
            others = self.errors
            last = MusterError(f"{len(self.errors)} of {count} {noun} failed")
        for error in others:
            note(f"error: {error}", "error")
            if error.hint:
                note(error.hint, "error")
        raise last


def for_each_name(
    target: Target, names: Sequence[str], action: Callable[[BlockingClient, Key], None]
) -> Failures:
    """Run an action that changes the cluster for every name, and collect its errors."""
    cluster = target.cluster()
    note_cluster(cluster)
    namespace = target.namespace_in(cluster)
    failures = Failures()
    with cluster.connect() as client:
        for name in names:
            with failures.collecting():
                action(client, Key(namespace, name))
    return failures


def change_each_job(
    target: Target,
    names: Sequence[str],
    type_: str,
    change: Callable[[BlockingClient, FoundJob], str],
) -> None:
    """Change every job named, and print the outcome that each change returns."""

    def change_job(client: BlockingClient, key: Key) -> None:
        job = lookup.get_job(client, key, type_)
        print(f"{object_name(job.raw)} {change(client, job)}")

    for_each_name(target, names, change_job).raise_if_any(len(names), "jobs")
