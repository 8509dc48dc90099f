"""Submitting a job: one operation for `arena submit`, the Python API and the dashboard.

A caller parses what its user gave (`FlagsJob` or `ManifestJob`), says where the job goes
(`ChosenCluster` or `OpenConnection`), and `submit` returns what happened. The job is built and
checked before a cluster is contacted or started. It is created whole or not at all. Its model is
registered in MLflow, over the REST API, when the job exists: it trains even if that fails.
"""

from __future__ import annotations

import base64
import json
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kubekit.errors import ConfigError, MusterError
from kubekit.objects import enforced_limits
from kubekit.objects.kinds import PERSISTENT_VOLUME_CLAIMS
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import ApiError, Forbidden, Unreachable
from muster.client import Notify, ignore
from muster.client.home import Home
from muster.client.jobs.usage import unenforced_limits
from muster.client.submit import defaults, job_directories
from muster.client.submit.transaction import Submitted, Transaction, submission_record
from muster.client.submit.user_role import with_role
from muster.client.target import Cluster, Target, no_cluster, start_cluster
from muster.jobs import parse
from muster.jobs.build import job_manifest
from muster.jobs.build.roles import flags_without_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw
    from muster.jobs.build.flags import Site, Submission
    from muster.jobs.build.job_manifest import Bundle

    Completion = Callable[[BlockingClient, Bundle, str], Bundle]
    """From the objects of a job and its namespace to the objects that are created."""


DryRun = Literal["none", "client", "server"]
"""client: build and check without a cluster. server: the cluster checks and stores nothing."""
_MLFLOW_SECONDS = 20


@dataclass(frozen=True)
class FlagsJob:
    """A job that flags describe."""

    kind: type[Submission]
    given: dict[str, Any]
    interpreter: str = ""
    """The default of `--python` on a local cluster."""
    complete: Completion | None = None
    """Adds to the objects of the job, once its cluster is known."""
    has_directory: bool = True
    """Whether the caller has a current directory, whose files the command may mean."""


@dataclass(frozen=True)
class ManifestJob:
    """A job that was written as a manifest, with its companions."""

    bundle: Bundle


@dataclass(frozen=True)
class SubmitResult:
    """What a submission did, or what it would do if this was a dry run."""

    created: Submitted
    """The objects as the server has them; after a dry run on the client, as they would be sent."""
    bundle: Bundle
    """The objects that were sent: with the user's name, without what the server adds."""
    namespace: str = ""
    notes: tuple[str, ...] = ()
    """Sentences about the flags, and about files that the job will not see."""
    unenforced: str = ""
    """A sentence about limits that the cluster does not enforce."""
    missing_volumes: tuple[str, ...] = ()
    """A sentence for each claim or directory that the job will wait for."""
    model_version: str = ""
    """The model and the version that were registered in MLflow: `NAME/VERSION`."""
    model_error: MusterError | None = None
    """Why the model was not registered. The job was created all the same."""
    cluster: Cluster | None = None
    """The chosen cluster."""

    @property
    def job(self) -> Raw:
        return self.created.job

    @property
    def warnings(self) -> tuple[str, ...]:
        """All sentences about what may keep the job from doing what its user wants."""
        return ((self.unenforced,) if self.unenforced else ()) + self.missing_volumes


class _Place(NamedTuple):
    """A connection to a cluster, and the namespace of jobs that name none."""

    client: BlockingClient
    namespace: str
    cluster: Cluster | None = None


@dataclass(frozen=True)
class ChosenCluster:
    """The cluster that the user's target means. It is looked up once, so that all of the job fits.

    If there is none, a local cluster is started after the job was checked.
    """

    target: Target
    found: Cluster | None
    announce: Callable[[Cluster], None] = lambda cluster: None
    """Told which cluster is about to be changed."""

    @classmethod
    def of(
        cls, target: Target, announce: Callable[[Cluster], None] = lambda cluster: None
    ) -> ChosenCluster:
        return cls(target, target.find(), announce)

    @property
    def is_local(self) -> bool:
        return self.found is None or self.found.local

    @property
    def home(self) -> Home | None:
        return self.found.home if self.found is not None else None

    @contextmanager
    def open(self, notify: Notify, *, dry_run: bool) -> Iterator[_Place]:
        """Connect to the cluster. A dry run starts none and announces none."""
        if self.found is None and dry_run:
            raise no_cluster()
        cluster = self.found or start_cluster(self.target, notify)
        if not dry_run:
            self.announce(cluster)
        with cluster.connect() as client:
            yield _Place(client, self.target.namespace_in(cluster), cluster)


@dataclass(frozen=True)
class OpenConnection:
    """A cluster that the caller is connected to."""

    client: BlockingClient
    namespace: str
    is_local: bool
    home: Home | None = None

    @contextmanager
    def open(self, notify: Notify, *, dry_run: bool) -> Iterator[_Place]:
        yield _Place(self.client, self.namespace)


def submit(
    wanted: FlagsJob | ManifestJob,
    destination: ChosenCluster | OpenConnection,
    *,
    dry_run: DryRun = "none",
    notify: Notify = ignore,
) -> SubmitResult:
    """Submit the job, or let the client or the server check it, and return what happened.

    `notify` gets the notes before a cluster is contacted, and sentences about what takes time.
    """
    prepared = _prepare(wanted, destination)
    for sentence in prepared.notes:
        notify(sentence)
    if dry_run == "client":
        bundle = prepared.bundle
        created = Submitted(bundle.job, submission_record(bundle.job), bundle.companions)
        return SubmitResult(created, bundle, notes=prepared.notes)
    checks_only = dry_run == "server"
    with destination.open(notify, dry_run=checks_only) as place:
        result = _create(prepared, place, dry_run=checks_only, notify=notify)
        try:
            result = _with_warnings(result, place.client, local=destination.is_local)
            if prepared.flags and prepared.flags.model_name and not checks_only:
                result = _with_model(result, prepared.flags)
        except KeyboardInterrupt:
            if not checks_only:
                notify(f"interrupted: the job {result.job['metadata']['name']} was submitted")
            raise
    return result


@dataclass(frozen=True)
class _PreparedJob:
    """A job that was built and checked on this machine."""

    bundle: Bundle
    flags: Submission | None = None
    """The flags that it was built from; None for a manifest."""
    notes: tuple[str, ...] = ()
    complete: Completion | None = None
    site: Site | None = None


def _prepare(
    wanted: FlagsJob | ManifestJob, destination: ChosenCluster | OpenConnection
) -> _PreparedJob:
    if isinstance(wanted, ManifestJob):
        return _PreparedJob(wanted.bundle)
    local, home = destination.is_local, destination.home or Home.of_user()
    given = wanted.given
    if local and wanted.interpreter:
        given = {"python": wanted.interpreter} | given
    flags = wanted.kind(**defaults.with_defaults(wanted.kind, given))
    if flags.model_name:
        mlflow_address()
    if local:
        flags = job_directories.resolve(flags, home)
    site = defaults.make_site(flags, home, local=local)
    bundle = job_manifest.bundle(flags, site)
    notes = flags_without_effect(flags)
    if local or wanted.has_directory:
        notes += job_directories.notes(flags, local=local)
    return _PreparedJob(bundle, flags, tuple(notes), wanted.complete, site)


def _create(
    prepared: _PreparedJob, place: _Place, *, dry_run: bool, notify: Notify
) -> SubmitResult:
    """Create the job and its companions, all or nothing; a dry run lets the server check them."""
    client, bundle = place.client, prepared.bundle
    namespace = str(bundle.job["metadata"].get("namespace") or place.namespace)
    if _is_restricted(prepared, client, namespace):
        bundle = _restricted(prepared, namespace, notify)
    if prepared.complete is not None:
        bundle = prepared.complete(client, bundle, namespace)
    if prepared.flags is not None:
        defaults.check_priority(client, prepared.flags)
        bundle = bundle.with_user(defaults.submitting_user(client))
    try:
        created = Transaction(client, namespace, dry_run=dry_run, notify=notify).submit(bundle)
    except Forbidden as error:
        raise with_role(error, namespace) from error
    return SubmitResult(created, bundle, namespace, prepared.notes, cluster=place.cluster)


def _is_restricted(prepared: _PreparedJob, client: BlockingClient, namespace: str) -> bool:
    """Whether the job's pods need another security context; the local cluster enforces none."""
    site = prepared.site
    return site is not None and not site.local and defaults.is_restricted(client, namespace)


def _restricted(prepared: _PreparedJob, namespace: str, notify: Notify) -> Bundle:
    """The job for a namespace of the pod security standard `restricted`."""
    assert prepared.flags is not None
    assert prepared.site is not None
    bundle = job_manifest.bundle(prepared.flags, replace(prepared.site, restricted=True))
    if refused := bundle.refused_in_restricted():
        notify(
            f"warning: the namespace {namespace} admits only pods of the pod security standard "
            f"restricted, without {', '.join(refused)}"
        )
    return bundle


def _with_warnings(result: SubmitResult, client: BlockingClient, *, local: bool) -> SubmitResult:
    """The result with sentences about limits without effect and volumes that do not exist."""
    try:
        unenforced = unenforced_limits(client, result.job, local=local)
        missing = tuple(missing_volumes(client, result.job, result.namespace, local=local))
    except (ApiError, Unreachable):
        return result  # an error here would hide that the job was created
    words = enforced_limits.in_words(unenforced) if unenforced else ""
    return replace(result, unenforced=words, missing_volumes=missing)


def _with_model(result: SubmitResult, flags: Submission) -> SubmitResult:
    """The result after the job's model was registered."""
    try:
        version = register_in_mlflow(flags.model_name, flags.model_source)
    except MusterError as error:
        return replace(result, model_error=error)
    return replace(result, model_version=f"{flags.model_name}/{version}")


_CREATED_TYPES = ("DirectoryOrCreate", "FileOrCreate")
"""Types of hostPath volumes that the node creates."""


def missing_volumes(
    client: BlockingClient, job: Raw, namespace: str, *, local: bool
) -> Iterator[str]:
    """A sentence for every claim and directory that does not exist: the job's pods wait for it.

    Claims are looked for on the cluster, directories only if the nodes are this machine.
    """
    parsed = parse.parse_valid(job)
    specs = parsed.replica_specs if parsed is not None else ()
    volumes = [volume for spec in specs for volume in spec.spec.get("volumes") or ()]
    for claim in _names(volumes, "persistentVolumeClaim", "claimName"):
        with suppress(ApiError):  # the user may not read claims: the pods' reason will say it
            if client.find(PERSISTENT_VOLUME_CLAIMS, Key(namespace, claim)) is None:
                yield (
                    f"there is no volume claim {claim} in the namespace {namespace}: the job waits "
                    "until it exists (`arena data list` shows the claims)"
                )
    for path in _names(volumes, "hostPath", "path") if local else ():
        if not Path(path).exists():
            yield f"there is no {path} on this machine: the job waits until it exists"


def _names(volumes: list[Any], source: str, field: str) -> list[str]:
    """The claims or the paths of the volumes, each once."""
    sources = [volume.get(source) for volume in volumes if isinstance(volume, dict)]
    names = (
        row.get(field)
        for row in sources
        if isinstance(row, dict) and row.get("type") not in _CREATED_TYPES
    )
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def mlflow_address() -> str:
    """The address of MLflow's tracking server; an error if none is configured."""
    address = os.environ.get("MLFLOW_TRACKING_URI", "").rstrip("/")
    if not address.startswith(("http://", "https://")):
        raise ConfigError(
            "--model-name needs an MLflow server",
            hint="Set MLFLOW_TRACKING_URI to its address, http://…",
        )
    return address


def register_in_mlflow(name: str, source: str) -> str:
    """Create a version of the model, and the model itself if it is new; returns the version."""
    address = mlflow_address()
    _post(address, "registered-models/create", {"name": name}, exists_ok=True)
    version = _post(
        address, "model-versions/create", {"name": name, "source": source, "run_id": ""}
    )
    return str((version.get("model_version") or {}).get("version", ""))


def _post(address: str, path: str, body: dict[str, str], *, exists_ok: bool = False) -> Any:
    import urllib.error  # slow to import, and few jobs have a model
    import urllib.request

    request = urllib.request.Request(
        f"{address}/api/2.0/mlflow/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **_mlflow_credentials()},
    )
    try:
        with urllib.request.urlopen(request, timeout=_MLFLOW_SECONDS) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        reply = error.read().decode(errors="replace")
        if exists_ok and "RESOURCE_ALREADY_EXISTS" in reply:
            return {}
        raise MusterError(f"MLflow refused {path}: {error.code} {reply[:200]}") from None
    except (OSError, ValueError) as error:
        raise MusterError(f"MLflow at {address} does not answer: {error}") from None


def _mlflow_credentials() -> dict[str, str]:
    user = os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    if not user:
        return {}
    word = f"{user}:{os.environ.get('MLFLOW_TRACKING_PASSWORD', '')}"
    return {"Authorization": f"Basic {base64.b64encode(word.encode()).decode()}"}
