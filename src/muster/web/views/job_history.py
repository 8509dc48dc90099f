"""When and where one job waited and ran, from what the cluster still knows about it.

A job's status has its last start and its end; its pods have nodes; events have the starts of pods
that are gone, and suspensions. All of it may be missing: pods are deleted, events expire after an
hour, other operators write less. Times come from several clocks, so an end before its start, or in
the future, is moved to the nearest moment that makes sense.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubekit.objects.meta import Key, Raw, mapping, read_timestamp
from muster.jobs.build.job_manifest import USER
from muster.jobs.job_state import PENDING, SUSPENDED
from muster.jobs.view.units import natural_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kubekit.objects.core import Pod
    from muster.jobs.view.summary import JobSummary

_POD_NAME = re.compile(r"(.+)-(?:worker|ps|chief|master|evaluator|launcher)-[^-]+")


class TimeSpan(msgspec.Struct, frozen=True):
    """A time from one moment to another, such as the time that the page shows."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    def percent(self, moment: datetime) -> float:
        share = (moment - self.start).total_seconds() / self.seconds
        return round(100 * max(0.0, min(1.0, share)), 3)

    def overlap(self, period: TimeSpan) -> float:
        """Seconds of the period that are within the span."""
        end, start = min(self.end, period.end), max(self.start, period.start)
        return max(0.0, (end - start).total_seconds())


class Period(TimeSpan, frozen=True):
    """A time in which a job waited or ran."""

    nodes: tuple[str, ...] = ()


class JobHistory(msgspec.Struct, frozen=True):
    kind: str
    namespace: str
    name: str
    owner: str
    """The user who submitted it, as far as its manifest tells."""
    state: str
    gpus: int
    restarts: int
    runs: tuple[Period, ...]
    waits: tuple[Period, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        nodes = {node for run in self.runs for node in run.nodes}
        return tuple(sorted(nodes, key=natural_order))

    @property
    def begin(self) -> datetime | None:
        return min((row.start for row in (*self.runs, *self.waits)), default=None)

    @property
    def end(self) -> datetime | None:
        return max((row.end for row in (*self.runs, *self.waits)), default=None)

    def started_runs(self, span: TimeSpan) -> Iterator[tuple[Period, float]]:
        """The runs that began within the span, each with the seconds of the wait before it."""
        for run in self.runs:
            if run.start >= span.start:
                yield run, sum(wait.seconds for wait in self.waits if wait.end == run.start)


class PodStart(NamedTuple):
    at: datetime
    node: str


@dataclass
class JobEvents:
    """What events tell about one job, in the order of time."""

    starts: list[PodStart] = field(default_factory=list)
    suspended: list[datetime] = field(default_factory=list)
    resumed: list[datetime] = field(default_factory=list)


def events_by_job(events: Iterable[Raw]) -> dict[Key, JobEvents]:
    """What events tell, by the key of the job."""
    found: dict[Key, JobEvents] = defaultdict(JobEvents)
    for event in events:
        subject = mapping(event.get("involvedObject"))
        reason = str(event.get("reason") or "")
        key = Key(str(subject.get("namespace") or ""), str(subject.get("name") or ""))
        moments = _moments(event)
        if subject.get("kind") == "Pod" and reason == "Started":
            if match := _POD_NAME.fullmatch(key.name):
                node = str(mapping(event.get("source")).get("host") or "")
                starts = found[Key(key.namespace, match[1])].starts
                starts += [PodStart(at, node) for at in moments]
        elif reason.endswith("JobSuspended"):
            found[key].suspended += moments
        elif reason.endswith("JobResumed"):
            found[key].resumed += moments
    for row in found.values():
        row.starts.sort()
        row.suspended.sort()
        row.resumed.sort()
    return found


def job_history(
    job: JobSummary, raw: Raw, pods: Sequence[Pod], events: JobEvents, now: datetime
) -> JobHistory:
    """The periods of one job; none if it has no time at all."""
    runs, waits = _periods(job, _starts(job, pods, events), events, now)
    annotations = (raw.get("metadata") or {}).get("annotations") or {}
    return JobHistory(
        kind=job.kind,
        namespace=job.namespace,
        name=job.name,
        owner=str(annotations.get(USER) or ""),
        state=job.status,
        gpus=job.requested_gpus,
        restarts=job.restarts,
        runs=tuple(runs),
        waits=tuple(row for row in waits if row.seconds > 0),
    )


def without_times(job: JobSummary) -> JobHistory:
    """The history of a job of whose times nothing can be read."""
    return JobHistory(job.kind, job.namespace, job.name, "", job.status, 0, 0, (), ())


def _periods(
    job: JobSummary, starts: list[PodStart], events: JobEvents, now: datetime
) -> tuple[list[Period], list[Period]]:
    """Runs and waits. A job waits from its creation or resumption until a pod starts."""
    runs: list[Period] = []
    waits: list[Period] = []
    begin = job.created or job.started or (starts[0].at if starts else None)
    if begin is None:
        return runs, waits
    is_idle = job.status in (PENDING, SUSPENDED)
    last_stop = job.suspended if job.status == SUSPENDED else None
    known = {*events.suspended, *([last_stop] if last_stop else ())}
    # Events go by the name: earlier ones are of a deleted job that had the same name.
    stops = sorted(stop for stop in known if stop >= begin)
    for stop in stops:
        _add(runs, waits, begin, stop, [row for row in starts if begin <= row.at <= stop])
        begin = next((moment for moment in events.resumed if moment >= stop), now)
    if job.status == SUSPENDED and stops:
        return runs, waits
    end = _between(begin, job.finished or now, now)
    own = [row for row in starts if row.at >= begin]
    if not own and job.started:  # nothing tells more than the operator
        own = [PodStart(_between(begin, job.started, end), "")]
    # Pods of a waiting job may have started before, but nothing tells when they ended.
    _add(runs, waits, begin, end, [] if is_idle else own)
    return runs, waits


def _add(
    runs: list[Period],
    waits: list[Period],
    begin: datetime,
    end: datetime,
    starts: Sequence[PodStart],
) -> None:
    end = max(begin, end)
    first = min((row.at for row in starts), default=None)
    if first is None:
        waits.append(Period(begin, end))
        return
    first = _between(begin, first, end)
    waits.append(Period(begin, first))
    nodes = sorted({row.node for row in starts if row.node}, key=natural_order)
    runs.append(Period(first, end, tuple(nodes)))


def _starts(job: JobSummary, pods: Sequence[Pod], events: JobEvents) -> list[PodStart]:
    """The starts of pods, of those that exist and of those that events tell of."""
    names = {instance.name for instance in job.instances}
    starts = set(events.starts)
    created = job.created or datetime.min.replace(tzinfo=UTC)
    for pod in pods:
        if pod.metadata.name not in names:
            continue
        for status in pod.status.container_statuses:
            for state in (status.state, status.last_state):
                for row in (state.running, state.terminated):
                    if row is not None and row.started_at is not None:
                        # The node's clock may be behind the API server's.
                        starts.add(PodStart(max(created, row.started_at), pod.spec.node_name))
    return sorted(starts)


def _between(low: datetime, moment: datetime, high: datetime) -> datetime:
    return max(low, min(moment, high))


def _moments(event: Raw) -> list[datetime]:
    rows = [event.get("firstTimestamp") or event.get("eventTime"), event.get("lastTimestamp")]
    return sorted({moment for row in rows if (moment := read_timestamp(row)) is not None})
