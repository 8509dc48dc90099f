"""Submitting a job: from flags or a manifest to objects that are created whole or not at all.

`prepare` builds and checks the objects before a cluster is contacted or started; `completed` adds
the user's name on the cluster, and `create` sends them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.client import ignore
from muster.client.submit import defaults, mlflow, workspace
from muster.client.submit.transaction import Submitted, Transaction
from muster.jobs.build import job_manifest

if TYPE_CHECKING:
    from muster.client import Notify
    from muster.jobs.build.flags import Submission
    from muster.jobs.build.job_manifest import Bundle
    from muster.kube.blocking_client import BlockingClient


@dataclass(frozen=True)
class PreparedJob:
    """A job that was checked and can be created."""

    bundle: Bundle
    flags: Submission | None = None
    """The flags that it was built from; None for a manifest."""
    notes: tuple[str, ...] = ()
    """Sentences for the user about where the job runs."""


def prepare(kind: type[Submission], given: dict[str, Any], *, local: bool) -> PreparedJob:
    """The job of these flags; `local` says that its nodes are this machine."""
    flags = kind(**defaults.with_defaults(kind, given))
    if flags.model_name:
        mlflow.check()
    if local:
        flags = workspace.resolve(flags)
    bundle = job_manifest.bundle(flags, defaults.make_site(flags, local=local))
    return PreparedJob(bundle, flags, workspace.notes(flags, local=local))


def create(
    client: BlockingClient,
    prepared: PreparedJob,
    namespace: str,
    *,
    dry_run: bool = False,
    notify: Notify = ignore,
) -> Submitted:
    """Create the job and its companions, all or nothing; a dry run lets the server check them."""
    bundle = completed(client, prepared)
    return Transaction(client, namespace, dry_run=dry_run, notify=notify).submit(bundle)


def completed(client: BlockingClient, prepared: PreparedJob) -> Bundle:
    """The objects as they are sent: a job of flags is checked once more, and names its user."""
    if prepared.flags is None:
        return prepared.bundle
    defaults.check_priority(client, prepared.flags)
    return prepared.bundle.with_user(defaults.submitting_user(client))
