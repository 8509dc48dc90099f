"""Submitting a job: from flags or a manifest to objects that are created whole or not at all.

`prepare` builds and checks the objects before a cluster is contacted or started; `completed` adds
the user's name on the cluster, and `create` sends them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kubekit.errors import Forbidden
from kubekit.objects import limits
from muster.client import ignore
from muster.client.home import Home
from muster.client.jobs.limits import unenforced_limits
from muster.client.submit import defaults, mlflow, workspace
from muster.client.submit.missing_volumes import missing_volumes
from muster.client.submit.transaction import Submitted, Transaction
from muster.client.submit.user_role import with_role
from muster.client.target import find_cluster, start_cluster
from muster.jobs.build import job_manifest
from muster.jobs.build.roles import flags_without_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw
    from muster.client import Notify
    from muster.client.target import Cluster, Target
    from muster.jobs.build.flags import Submission
    from muster.jobs.build.job_manifest import Bundle

    Completion = Callable[[BlockingClient, Bundle, str], Bundle]
    """From the objects of a job and its namespace to the objects that are created."""


@dataclass(frozen=True)
class Destination:
    """The cluster of a submission. It is looked up once, so that all of the job fits it."""

    target: Target
    found: Cluster | None
    """None if there is no cluster: a local one is started after the job was checked."""

    @classmethod
    def of(cls, target: Target) -> Destination:
        return cls(target, find_cluster(target))

    @property
    def is_local(self) -> bool:
        return self.found is None or self.found.local

    def cluster(self, notify: Notify) -> Cluster:
        return self.found or start_cluster(self.target, notify)


def submit_flags(
    kind: type[Submission],
    given: dict[str, Any],
    destination: Destination,
    notify: Notify = ignore,
    complete: Completion | None = None,
    *,
    interpreter: str = "",
) -> tuple[Cluster, Submitted]:
    """Submit the job of these flags, on a local cluster that is started if there is no cluster.

    The job is checked before a cluster is contacted or started. `complete` then may add to it.
    `interpreter` is the default of `--python` on a local cluster.
    """
    if destination.is_local and interpreter:
        given = {"python": interpreter} | given
    home = destination.found.home if destination.found is not None else None
    prepared = prepare(kind, given, local=destination.is_local, home=home)
    flags = prepared.flags
    assert flags is not None
    for sentence in (*flags_without_effect(flags), *prepared.notes):
        notify(sentence)
    cluster = destination.cluster(notify)
    namespace = destination.target.namespace_in(cluster)
    with cluster.connect() as client:
        if complete is not None:
            prepared = replace(prepared, bundle=complete(client, prepared.bundle, namespace))
        submitted = create(client, prepared, namespace, notify=notify)
        for sentence in warnings(client, submitted.job, namespace, local=cluster.local):
            notify(sentence)
    if flags.model_name:
        mlflow.register(flags.model_name, flags.model_source)
    return cluster, submitted


def warnings(client: BlockingClient, job: Raw, namespace: str, *, local: bool) -> Iterator[str]:
    """Sentences about a job that was created: limits without effect, volumes that are missing."""
    if unenforced := unenforced_limits(client, job, local=local):
        yield limits.in_words(unenforced)
    for sentence in missing_volumes(client, job, namespace, local=local):
        yield f"warning: {sentence}"


@dataclass(frozen=True)
class PreparedJob:
    """A job that was checked and can be created."""

    bundle: Bundle
    flags: Submission | None = None
    """The flags that it was built from; None for a manifest."""
    notes: tuple[str, ...] = ()
    """Sentences for the user about where the job runs."""


def prepare(
    kind: type[Submission], given: dict[str, Any], *, local: bool, home: Home | None = None
) -> PreparedJob:
    """The job of these flags; `local` says that its nodes are this machine.

    `home` is that of its local cluster, by default the user's own.
    """
    home = home or Home.of_user()
    flags = kind(**defaults.with_defaults(kind, given))
    if flags.model_name:
        mlflow.check()
    if local:
        flags = workspace.resolve(flags, home)
    bundle = job_manifest.bundle(flags, defaults.make_site(flags, home, local=local))
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
    try:
        return Transaction(client, namespace, dry_run=dry_run, notify=notify).submit(bundle)
    except Forbidden as error:
        raise with_role(error, namespace) from error


def completed(client: BlockingClient, prepared: PreparedJob) -> Bundle:
    """The objects as they are sent: a job of flags is checked once more, and names its user."""
    if prepared.flags is None:
        return prepared.bundle
    defaults.check_priority(client, prepared.flags)
    return prepared.bundle.with_user(defaults.submitting_user(client))
