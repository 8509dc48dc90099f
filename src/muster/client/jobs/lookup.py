"""Finding jobs and their pods on a cluster, for the verbs that show or change them.

A name is a job's, then a pod's; `job/NAME` (or `tfjob/NAME`) and `pod/NAME` say which. A kind whose
CRD is not installed has no jobs, and one that may not be read is left out; neither is an error
unless it is so with every kind that was asked for.

One question about several kinds of jobs, some of which may not be read.

Asked by `find`. Promise: what may be read is answered; only when no kind answers is that an error.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from muster.api.kinds import JAXJOBS, JOB_KINDS, MPIJOBS, PODS, PYTORCHJOBS, TFJOBS, Kind
from muster.api.meta import Key, Raw, key_of
from muster.cli.show.messages import note_once
from muster.errors import Forbidden, MusterError, NotFound, UsageError, no_such
from muster.jobs import names
from muster.jobs.summary import JobSummary, summarize
from muster.kube import request
from muster.kube.error_response import HOW_TO_INSTALL_JOB_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.core import Pod
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.kube.blocking_client import BlockingClient


T = TypeVar("T")


class KindQuery(Generic[T]):
    """The answers by kind; `absent` kinds know nothing of it, of `barred` ones nobody may ask."""

    def __init__(self, kinds: Sequence[Kind[Raw]], question: Callable[[Kind[Raw]], T]) -> None:
        self.answers: list[tuple[Kind[Raw], T]] = []
        self.absent: list[Kind[Raw]] = []
        self.barred: list[Kind[Raw]] = []
        refusals = []
        for kind in kinds:
            try:
                self.answers.append((kind, question(kind)))
            except NotFound:
                self.absent.append(kind)
            except Forbidden as error:
                self.barred.append(kind)
                refusals.append(error)
        if refusals and not self.answers and not self.absent:
            raise refusals[0]

    @property
    def unread(self) -> str:
        """The kinds that may not be read, by name; empty if there are none."""
        return ", ".join(kind.plural for kind in self.barred)


JOB_TYPES: dict[str, Kind[Raw]] = {
    "tfjob": TFJOBS, "tf": TFJOBS, "tensorflow": TFJOBS,
    "mpijob": MPIJOBS, "mpi": MPIJOBS,
    "pytorchjob": PYTORCHJOBS, "pytorch": PYTORCHJOBS, "py": PYTORCHJOBS,
    "jaxjob": JAXJOBS, "jax": JAXJOBS,
}  # fmt: skip


def kinds_of_type(type_: str) -> tuple[Kind[Raw], ...]:
    """The kinds that `--type` means; all of them when it is empty."""
    if not type_:
        return JOB_KINDS
    kind = JOB_TYPES.get(type_.lower())
    if kind is None:
        raise UsageError(
            no_such("job type", type_, list(JOB_TYPES)),
            hint="Types: tfjob, mpijob, pytorchjob, jaxjob.",
        )
    return (kind,)


class ParsedName(NamedTuple):
    """A name as it was written: what it must be, if that was said, and the bare name."""

    force: str
    """`job`, `pod` or nothing."""
    type: str
    """A type of job, or nothing for any."""
    name: str


def parse_name(text: str, type_: str = "") -> ParsedName:
    """Take `job/x`, `tfjob/x`, `pod/x` or plain `x` apart; `--type` means a job."""
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
    single = kind.removesuffix("s") if kind.removesuffix("s") in JOB_TYPES else kind
    kinds_of_type(single)
    return ParsedName("job", single, name)


def get_job(client: BlockingClient, key: Key, type_: str = "") -> tuple[Kind[Raw], Raw]:
    """The one job of that name; it may be written `job/x` or `tfjob/x`."""
    meant = parse_name(key.name, type_)
    if meant.force == "pod":
        raise UsageError(f"{key.name}: this is about jobs, not about pods")
    key = Key(key.namespace, meant.name)
    survey = KindQuery(kinds_of_type(meant.type), lambda kind: client.get(kind, key))
    found = survey.answers
    if not found:
        absent = survey.absent
        if not survey.barred and not any(_served(client, kind, key) for kind in absent):
            raise _not_installed(absent)
        raise _no_job(key, survey.unread)
    if len(found) > 1:
        types = ", ".join(kind.kind.lower() for kind, _ in found)
        raise MusterError(
            f"there are {len(found)} training jobs named {key.name}: {types}",
            hint="Choose one with --type.",
        )
    return found[0]


def list_jobs(client: BlockingClient, namespace: str, type_: str = "") -> list[JobSummary]:
    """Every job of a namespace (or of all, if it is empty), newest first."""
    jobs = _listed(client, namespace, type_)
    if not jobs:
        return []
    pods = client.list(PODS, namespace, labels=names.JOB, page=0).items
    by_job: dict[Key, list[Pod]] = {}
    for pod in pods:
        name = pod.metadata.labels.get(names.JOB, "")
        by_job.setdefault(Key(pod.metadata.namespace, name), []).append(pod)
    now = datetime.now(UTC)
    views = [summarize(raw, by_job.get(key_of(raw), []), now) for raw in jobs]
    return sorted(views, key=lambda v: (-(v.created.timestamp() if v.created else 0), v.key))


def list_names(client: BlockingClient, namespace: str, type_: str = "") -> list[str]:
    """The names of all jobs of a namespace."""
    return [key_of(raw).name for raw in _listed(client, namespace, type_)]


def get_view(client: BlockingClient, key: Key, type_: str = "") -> JobSummary:
    """One job with its pods."""
    _, raw = get_job(client, key, type_)
    return summarize(raw, pods_of(client, key_of(raw)), datetime.now(UTC))


def pods_of(client: BlockingClient, job: Key) -> list[Pod]:
    """The pods that carry the job's label; `view` and `belonging` pick those that are its own."""
    return client.list(PODS, job.namespace, labels=f"{names.JOB}={job.name}").items


def job_exists(client: BlockingClient, key: Key) -> bool:
    """Whether a job has that name, as far as one may know."""
    try:
        get_job(client, key)
    except (NotFound, Forbidden):
        return False
    except MusterError:
        return True  # of several kinds
    return True


def get_job_or_pod(
    client: BlockingClient, key: Key, type_: str = ""
) -> tuple[Kind[Raw], Raw] | Pod:
    """The job of that name with its kind, or else the pod."""
    meant = parse_name(key.name, type_)
    bare = Key(key.namespace, meant.name)
    if meant.force == "pod":
        return _pod(client, bare)
    try:
        return get_job(client, key, type_)
    except NotFound:
        if meant.force == "job":
            raise
        try:
            return client.get(PODS, bare)
        except (NotFound, Forbidden):
            pass
        raise


def _pod(client: BlockingClient, key: Key) -> Pod:
    try:
        return client.get(PODS, key)
    except NotFound as error:
        raise NotFound(
            f"there is no pod named {key.name} in namespace {key.namespace}",
            status=404,
            hint="`arena get pods` lists those that are there.",
        ) from error


def _no_job(key: Key, unread: str) -> NotFound:
    """What arena says."""
    return NotFound(
        f"Not found training job {key.name} in namespace {key.namespace},"
        "please use 'arena submit' to create it.",
        status=404,
        hint=f"You may not read {unread}: it may be one of these." if unread else "",
    )


def _listed(client: BlockingClient, namespace: str, type_: str) -> list[Raw]:
    """The jobs of every kind that may be listed; the others are told once."""
    survey = KindQuery(
        kinds_of_type(type_), lambda kind: client.list(kind, namespace, page=0).items
    )
    if not survey.barred and not survey.answers:
        raise _not_installed(survey.absent)
    if survey.barred:
        read = [kind.kind.lower() for kind, _ in survey.answers]
        only = f"-T {read[0]} asks for no others" if len(read) == 1 else "-T asks for one kind"
        note_once(f"left out, since you may not list them: {survey.unread} ({only})")
    return [raw for _, found in survey.answers for raw in found]


def _served(client: BlockingClient, kind: Kind[Raw], job: Key) -> bool:
    """Whether the cluster knows this kind, which the want of a job leaves open."""
    try:
        client.send(request.list_page(kind, job.namespace, limit=1, continue_token=""))
    except NotFound:
        return False
    except Forbidden:
        pass
    return True


def _not_installed(kinds: Sequence[Kind[Raw]]) -> NotFound:
    if len(kinds) == 1:
        what = f"{kinds[0].plural}: their CRD is not installed"
    else:
        what = "training jobs: their CRDs are not installed"
    return NotFound(f"the cluster knows no {what}", status=404, hint=HOW_TO_INSTALL_JOB_KINDS)
