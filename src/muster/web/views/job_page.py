"""One job: its state and why, its replicas, the timeline of its conditions, its events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from muster.contract.job_explanation import JobExplanation, place_in_words
from muster.jobs.job_state import PENDING, SUSPENDED
from muster.jobs.job_status import decode_status
from muster.jobs.view.units import duration, gone_restarts, next_try, said_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from muster.jobs.view.events import EventRow
    from muster.jobs.view.instance import Instance
    from muster.jobs.view.summary import JobSummary

MAX_EVENTS = 200
MANY_REPLICAS = 10
"""More of them do not fit on a screen."""
MAX_TOPICS = 40
"""Pods whose events are subscribed to one by one; of more pods, all events of the cluster."""
_KEPT = ("name", "namespace", "labels", "annotations")
_OWN = ("kubectl.kubernetes.io/last-applied-configuration",)


class Replica(msgspec.Struct, frozen=True):
    """A row of the table of replicas."""

    instance: Instance
    state: str
    reason: str
    age: float
    gone: bool
    """Whether only its logs are left."""
    attempts: int
    """The attempts whose logs the cluster keeps; 0 if it keeps none."""


class Moment(msgspec.Struct, frozen=True):
    """A condition in the timeline."""

    title: str
    holds: bool
    """Whether the condition is still true."""
    reason: str
    message: str
    age: float
    at: datetime | None


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    job: JobSummary
    reason: str
    place: str
    """`2nd of 7 in line`; empty unless it waits there."""
    notes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    running_since: datetime | None
    """Its start as far as its duration goes, without suspensions; None if it does not run."""
    replicas: tuple[Replica, ...]
    timeline: tuple[Moment, ...]
    events: tuple[EventRow, ...] | None
    """None if the user may not read them."""
    age: float
    now: datetime
    can_suspend: bool
    can_resume: bool
    topics: str
    event_topics: str
    tensorboard: tuple[str, str] | None
    """The address and the problem of its TensorBoard; None if it has none."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows beside the job and its pods."""

    explanation: JobExplanation | None = None
    events: Sequence[EventRow] | None = None
    replicas: Sequence[Instance] = ()
    """The replicas of the job, also those whose pods do not exist any more."""
    gone: Mapping[str, str] = {}
    """The names of pods that do not exist any more, and how they ended."""
    attempts: Mapping[str, int] = {}
    """The number of attempts whose logs are there, by pod."""
    tensorboard: tuple[str, str] | None = None
    """The address and the problem of its TensorBoard; None if it has none."""


def job_page(raw: Raw, job: JobSummary, facts: JobFacts, now: datetime) -> JobPage:
    reason, place = _reason_and_place(job, facts.explanation, now)
    timeline = _timeline(raw, job, now)
    return JobPage(
        job=job,
        reason=reason,
        place=place,
        notes=tuple(filter(None, (job.discarded, job.left_pods, gone_restarts(job.gone_restarts)))),
        facts=_facts(job, timeline, now),
        running_since=job.running_since(now),
        replicas=_replicas(job, facts, reason, now),
        timeline=timeline,
        events=None if facts.events is None else tuple(reversed(facts.events))[:MAX_EVENTS],
        age=job.age(now).total_seconds(),
        now=now,
        can_suspend=not job.over and job.status != SUSPENDED,
        can_resume=job.status == SUSPENDED,
        topics=f"job:{job.key}" + (" line" if job.status == PENDING else ""),
        event_topics=_event_topics(job),
        tensorboard=facts.tensorboard,
    )


def _reason_and_place(
    job: JobSummary, explanation: JobExplanation | None, now: datetime
) -> tuple[str, str]:
    """Why the job is in its state, and its place in line, in the words of `arena get`."""
    reason = job.headline + next_try(job.next_try, now) if job.reason else ""
    reason = f"{reason} {job.remedy}" if job.remedy else reason
    if explanation is None or job.status != PENDING:
        return reason, ""
    # The place is on a separate line.
    return reason or explanation.reason or explanation.text, place_in_words(explanation)


def _facts(
    job: JobSummary, timeline: Sequence[Moment], now: datetime
) -> tuple[tuple[str, str], ...]:
    time_name = "Waiting" if job.only_waited else "Duration"
    facts = {
        "Replicas": job.counts or str(job.replicas or ""),
        "GPUs": f"{job.allocated_gpus} of {job.requested_gpus}" if job.requested_gpus else "",
        "Waited": _waited(job, timeline),
        time_name: duration(job.duration(now).total_seconds()) if job.started else "",
        "Priority": job.priority,
        "Restarts": str(job.restarts or ""),
        f"{job.lead.capitalize()} on": job.chief.node if job.chief else "",
    }
    return tuple((name, value) for name, value in facts.items() if value)


def _waited(job: JobSummary, timeline: Iterable[Moment]) -> str:
    """From the creation to the first start, as long as the conditions tell it."""
    running = next((row.at for row in timeline if row.title == "Running" and row.holds), None)
    if not (running and job.created) or job.earlier_seconds or job.restarts:
        return ""
    return duration((running - job.created).total_seconds())


def _replicas(
    job: JobSummary, facts: JobFacts, reason_of_job: str, now: datetime
) -> tuple[Replica, ...]:
    """In the order of roles and numbers; of many, those that have something to say come first."""
    rows = [(row, _reason(row, now)) for row in facts.replicas or job.instances]
    if len(rows) > MANY_REPLICAS:
        rows.sort(key=lambda row: row[1] in ("", reason_of_job))
    reasons = said_once([reason for _, reason in rows], reason_of_job)
    return tuple(
        _replica(row, facts, reason, now) for (row, _), reason in zip(rows, reasons, strict=True)
    )


def _reason(row: Instance, now: datetime) -> str:
    time = next_try(row.crash.next_try if row.crash else None, now)
    return f"{row.reason}{time}" if row.reason else ""


def _replica(row: Instance, facts: JobFacts, reason: str, now: datetime) -> Replica:
    gone = row.name in facts.gone
    return Replica(
        instance=row,
        state=facts.gone.get(row.name, row.status),
        reason="Its pod is gone; its logs are here." if gone else reason,
        age=(now - row.created).total_seconds() if row.created else 0.0,
        gone=gone,
        attempts=facts.attempts.get(row.name, 0),
    )


def end_in_words(pod: str, exit_code: int | None, job: JobSummary) -> str:
    """How a pod ended that is gone. Its exit code alone does not tell: the job may have stopped
    it."""
    if job.status == SUSPENDED or (job.stopped is not None and pod in job.stopped.names):
        return "Stopped"
    return "Ended" if exit_code is None else f"Exited with {exit_code}"


def _timeline(raw: Raw, job: JobSummary, now: datetime) -> tuple[Moment, ...]:
    """The conditions in the order in which they came."""
    conditions = decode_status(raw.get("status")).conditions
    moments = [
        Moment(
            title=row.type,
            holds=row.status == "True",
            reason=row.reason,
            message=row.message,
            age=(now - row.transitioned_at).total_seconds() if row.transitioned_at else 0.0,
            at=row.transitioned_at,
        )
        for row in conditions
    ]
    if job.created and all(moment.title != "Created" for moment in moments):
        age = job.age(now).total_seconds()
        moments.insert(0, Moment("Created", True, "", "", age, job.created))
    return tuple(sorted(moments, key=lambda moment: -moment.age))


def _event_topics(job: JobSummary) -> str:
    if len(job.instances) > MAX_TOPICS:
        return "events"
    names = [job.name, *(row.name for row in job.instances)]
    return " ".join(f"events:{job.namespace}/{name}" for name in names)


def manifest(job: Raw) -> Raw:
    """The job as it can be submitted again: without what the cluster has added."""
    given = job.get("metadata") or {}
    metadata = {name: given[name] for name in _KEPT if given.get(name)}
    if annotations := metadata.pop("annotations", None):
        others = {name: text for name, text in annotations.items() if name not in _OWN}
        metadata |= {"annotations": others} if others else {}
    rest = {name: value for name, value in job.items() if name not in ("metadata", "status")}
    first: Raw = {name: rest.pop(name) for name in ("apiVersion", "kind") if name in rest}
    return {**first, "metadata": metadata, **rest}
