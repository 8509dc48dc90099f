"""Finding jobs and their pods on a cluster.

A name is the name of a job or, if no job has it, of a pod; `job/NAME` (or `tfjob/NAME`) and
`pod/NAME` say which. A kind whose CRD is not installed has no jobs, and a kind that the user may
not read is left out: an error only if that holds for all kinds.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from kubekit.client import request
from kubekit.client.error_response import HOW_TO_INSTALL_JOB_KINDS
from kubekit.errors import MusterError, UsageError, nearest, no_such
from kubekit.objects.kinds import PODS, Kind
from kubekit.objects.meta import Key, Raw, key_of
from kubekit.request_errors import Forbidden, NotFound
from muster.client import Notify, ignore
from muster.contract.job_fields import InvalidJob
from muster.contract.job_kinds import JOB_KINDS, TYPE_ALIASES
from muster.jobs import names, parse
from muster.jobs.view.instance import pods_of_job
from muster.jobs.view.summary import JobSummary, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Pod
    from muster.jobs.job import SchedulingPolicy

T = TypeVar("T")


class KindQuery(Generic[T]):
    """One request for each of several kinds: the results, and the kinds that have none."""

    def __init__(self, kinds: Sequence[Kind[Raw]], ask: Callable[[Kind[Raw]], T]) -> None:
        self.results: list[tuple[Kind[Raw], T]] = []
        self.missing: list[Kind[Raw]] = []
        self.forbidden: list[Kind[Raw]] = []
        errors = []
        for kind in kinds:
            try:
                self.results.append((kind, ask(kind)))
            except NotFound:
                self.missing.append(kind)
            except Forbidden as error:
                self.forbidden.append(kind)
                errors.append(error)
        if errors and not self.results and not self.missing:
            raise errors[0]

    @property
    def forbidden_names(self) -> str:
        return ", ".join(kind.plural for kind in self.forbidden)


class FoundJob(msgspec.Struct, frozen=True):
    """A job as the server has it, and its kind."""

    kind: Kind[Raw]
    raw: Raw

    @property
    def key(self) -> Key:
        return key_of(self.raw)

    @property
    def uid(self) -> str:
        return str(self.raw["metadata"]["uid"])

    def pods(self, client: BlockingClient) -> list[Pod]:
        """The pods that belong to the job."""
        return pods_of_job(self.kind.kind, self.key, self.uid, labelled_pods(client, self.key))

    @property
    def scheduling_policy(self) -> SchedulingPolicy | None:
        """Its schedulingPolicy; None if the manifest is invalid."""
        try:
            return parse.parse_job(self.raw).policy.scheduling
        except InvalidJob:
            return None

    def summary(self, pods: Sequence[Pod], now: datetime | None = None) -> JobSummary:
        return summarize(self.raw, pods, now or datetime.now(UTC))


_KIND_BY_TYPE = {kind.kind.lower(): kind for kind in JOB_KINDS}
JOB_TYPES = {**_KIND_BY_TYPE, **{a: _KIND_BY_TYPE[type_] for a, type_ in TYPE_ALIASES.items()}}
"""Every word for a type of job."""


def kinds_of_type(type_: str) -> tuple[Kind[Raw], ...]:
    """The kinds that `--type` means; all kinds when it is empty."""
    if not type_:
        return JOB_KINDS
    kind = JOB_TYPES.get(type_.lower())
    if kind is None:
        raise UsageError(
            no_such("job type", type_, JOB_TYPES),
            hint=f"Types: {', '.join(_KIND_BY_TYPE)}.",
        )
    return (kind,)


class NoSuchJob(NotFound):
    """No job has that name, as far as the user may read jobs."""

    def __init__(self, key: Key, type_: str, forbidden: str) -> None:
        # The message is arena's, since scripts compare it.
        super().__init__(
            f"Not found training job {key.name} in namespace {key.namespace},"
            "please use 'arena submit' to create it.",
            hint=f"You may not read {forbidden}: it may be one of these." if forbidden else "",
        )
        self.key, self.type = key, type_


class ParsedName(msgspec.Struct, frozen=True):
    """A name on the command line, taken apart."""

    must_be: str
    """`job`, `pod`, or empty for either."""
    type: str
    """A type of job, or empty for any."""
    name: str


def parse_name(text: str, type_: str = "") -> ParsedName:
    """Take `job/x`, `tfjob/x`, `pod/x` or plain `x` apart; with `--type` it is a job."""
    kind, slash, name = text.partition("/")
    kind = kind.lower().partition(".")[0]
    if not slash:
        return ParsedName("job" if type_ else "", type_, text)
    if not kind or not name or "/" in name:
        raise UsageError(f"{text}: write NAME, job/NAME or pod/NAME")
    if kind in ("pod", "pods", "po"):
        return ParsedName("pod", "", name)
    if kind in ("job", "jobs"):
        return ParsedName("job", type_, name)
    singular = kind.removesuffix("s") if kind.removesuffix("s") in JOB_TYPES else kind
    kinds_of_type(singular)
    return ParsedName("job", singular, name)


def get_job(client: BlockingClient, key: Key, type_: str = "") -> FoundJob:
    """The one job of that name; it may be written `job/x` or `tfjob/x`."""
    try:
        return _get_job(client, key, type_)
    except NoSuchJob as error:
        raise _with_similar_name(client, error) from None


def _get_job(client: BlockingClient, key: Key, type_: str) -> FoundJob:
    parsed = parse_name(key.name, type_)
    if parsed.must_be == "pod":
        raise UsageError(f"{key.name}: this is about jobs, not about pods")
    key = Key(key.namespace, parsed.name)
    query = KindQuery(kinds_of_type(parsed.type), lambda kind: client.get(kind, key))
    if not query.results:
        if not query.forbidden and not any(_is_served(client, k, key) for k in query.missing):
            raise _not_installed(query.missing)
        raise NoSuchJob(key, parsed.type, query.forbidden_names)
    if len(query.results) > 1:
        first, *others = (kind.kind.lower() for kind, _ in query.results)
        raise MusterError(
            f"there are {1 + len(others)} training jobs named {key.name}: "
            f"{', '.join((first, *others))}",
            hint=f"Say which one: --type {first}, or {first}/{key.name} instead of {key.name}.",
        )
    return FoundJob(*query.results[0])


def list_jobs(
    client: BlockingClient,
    namespace: str,
    type_: str = "",
    notify: Notify = ignore,
    *,
    now: datetime,
    labels: str = "",
) -> list[JobSummary]:
    """Every job with these labels in a namespace (in all, if it is empty), newest first."""
    jobs = _list_raw(client, namespace, type_, notify, labels)
    if not jobs:
        return []
    # One list for all jobs: a request per job would take seconds for hundreds of jobs.
    pods = client.list(PODS, namespace, labels=names.JOB, page=0).items
    by_job: dict[Key, list[Pod]] = {}
    for pod in pods:
        name = pod.metadata.labels.get(names.JOB, "")
        by_job.setdefault(Key(pod.metadata.namespace, name), []).append(pod)
    summaries = [summarize(raw, by_job.get(key_of(raw), []), now) for raw in jobs]
    return sorted(summaries, key=lambda s: (-(s.created.timestamp() if s.created else 0), s.key))


def list_names(client: BlockingClient, namespace: str, type_: str = "") -> list[str]:
    """The names of all jobs of a namespace."""
    return [key_of(raw).name for raw in _list_raw(client, namespace, type_, ignore)]


def get_summary(
    client: BlockingClient, key: Key, type_: str = "", now: datetime | None = None
) -> JobSummary:
    """One job with its pods."""
    job = get_job(client, key, type_)
    return job.summary(job.pods(client), now)


def labelled_pods(client: BlockingClient, job: Key) -> list[Pod]:
    """The pods with the job's label, including pods of a former job of that name."""
    return client.list(PODS, job.namespace, labels=f"{names.JOB}={job.name}").items


def job_exists(client: BlockingClient, key: Key) -> bool:
    """Whether a job has that name, as far as the user may read jobs."""
    try:
        _get_job(client, key, "")
    except (NotFound, Forbidden):
        return False
    except MusterError:
        return True  # jobs of several kinds
    return True


def get_job_or_pod(client: BlockingClient, key: Key, type_: str = "") -> FoundJob | Pod:
    """The job of that name, else the pod."""
    parsed = parse_name(key.name, type_)
    bare = Key(key.namespace, parsed.name)
    if parsed.must_be == "pod":
        if pod := client.find(PODS, bare):
            return pod
        raise NotFound(
            f"there is no pod named {bare.name} in namespace {bare.namespace}",
            hint="`arena get pods` lists the pods of a namespace.",
        )
    try:
        return _get_job(client, key, type_)
    except NotFound as error:
        if parsed.must_be != "job":
            with suppress(NotFound, Forbidden):
                return client.get(PODS, bare)
        if not isinstance(error, NoSuchJob):
            raise
        raise _with_similar_name(client, error) from None


def _with_similar_name(client: BlockingClient, error: NoSuchJob) -> NoSuchJob:
    """The error; its hint is a job of another type with that name, or one with a similar name."""
    if error.type:
        with suppress(MusterError):
            other = _get_job(client, error.key, "")
            error.hint = f"There is {other.kind.kind.lower()}/{error.key.name}."
            return error
    with suppress(MusterError):
        names_of_jobs = list_names(client, error.key.namespace, error.type)
        if similar := nearest(error.key.name, names_of_jobs):
            error.hint = f"Did you mean {similar}?"
    return error


def _list_raw(
    client: BlockingClient, namespace: str, type_: str, notify: Notify, labels: str = ""
) -> list[Raw]:
    """The jobs of every kind that the user may list."""
    query = KindQuery(
        kinds_of_type(type_),
        lambda kind: client.list(kind, namespace, labels=labels, page=0).items,
    )
    if not query.forbidden and not query.results:
        raise _not_installed(query.missing)
    if query.forbidden:
        types = [kind.kind.lower() for kind, _ in query.results]
        only = f"-T {types[0]} asks for no others" if len(types) == 1 else "-T asks for one kind"
        notify(f"not shown, because you may not list them: {query.forbidden_names} ({only})")
    return [raw for _, items in query.results for raw in items]


def _is_served(client: BlockingClient, kind: Kind[Raw], job: Key) -> bool:
    """Whether the cluster serves this kind; a 404 for one job does not tell."""
    try:
        client.send(request.list_page(kind, job.namespace, limit=1, continue_token=""))
    except NotFound:
        return False
    except Forbidden:
        pass
    return True


def _not_installed(kinds: Sequence[Kind[Raw]]) -> NotFound:
    if len(kinds) == 1:
        problem = f"{kinds[0].plural}: their CRD is not installed"
    else:
        problem = "training jobs: their CRDs are not installed"
    return NotFound(f"the cluster does not know {problem}", hint=HOW_TO_INSTALL_JOB_KINDS)
