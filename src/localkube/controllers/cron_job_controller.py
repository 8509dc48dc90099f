"""The controller of CronJobs: reads a cron job and its jobs, decides, writes.

Only the most recent of several missed times gets a job. The name of a job contains its time, so
that a job whose creation was not recorded in the status is found and not created twice.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects.events import EventText
from kubekit.objects.meta import Key, Raw, read_timestamp, shifted, timestamp
from kubekit.request_errors import AlreadyExists, NotFound
from localkube import cron_schedule
from localkube.controllers.batch_job_decision import end_of
from localkube.controllers.pod_control import OwnerController
from localkube.controllers.shared_informers import OWNER
from localkube.controllers.workloads import CRON_JOBS, JOBS, CronJob, Job, owner_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from localkube.cron_schedule import Schedule

_TIME = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY = 100
_SKEW = 0.1
"""Seconds after a time of the schedule at which it is surely reached."""


@dataclass
class Plan:
    """The writes of one visit."""

    status: Raw
    """The status without the job that is created."""
    events: list[EventText] = field(default_factory=list)
    delete: list[Job] = field(default_factory=list)
    create: datetime | None = None
    """The time of the schedule for which a job is due."""
    again: float | None = None
    """Seconds until the next visit."""


def decide(cron_job: CronJob, jobs: Sequence[Job], now: datetime) -> Plan:
    """The next steps; `jobs` are all jobs that the cron job controls."""
    plan = Plan(dict(cron_job.status))
    _note_ends(plan, cron_job, jobs)
    if cron_job.metadata.deletion_timestamp is not None:
        return plan
    plan.delete += _beyond_history(cron_job, jobs)
    if not cron_job.spec.suspend:
        _start(plan, cron_job, jobs, now)
    return plan


# -- jobs that ended -----------------------------------------------------------------------------


def _note_ends(plan: Plan, cron_job: CronJob, jobs: Sequence[Job]) -> None:
    by_uid = {job.metadata.uid: job for job in jobs}
    active = []
    for reference in cron_job.status.get("active") or ():
        job = by_uid.get(reference.get("uid", ""))
        if job is None:
            text = f"Active job went missing: {reference.get('name')}"
            plan.events.append(EventText("MissingJob", text))
        elif end := end_of(job):
            text = f"Saw completed job: {job.metadata.name}, condition: {end}"
            plan.events.append(EventText("SawCompletedJob", text))
        else:
            active.append(reference)
    _set(plan.status, "active", active)
    ends = [job.status.get("completionTime") for job in jobs if end_of(job) == "Complete"]
    last = max((end for end in (*ends, plan.status.get("lastSuccessfulTime")) if end), default=None)
    _set(plan.status, "lastSuccessfulTime", last)


def _set(status: Raw, name: str, value: object) -> None:
    if value:
        status[name] = value
    else:
        status.pop(name, None)


def _beyond_history(cron_job: CronJob, jobs: Sequence[Job]) -> list[Job]:
    spec, old = cron_job.spec, []
    for end, limit in (
        ("Complete", spec.successful_jobs_history_limit),
        ("Failed", spec.failed_jobs_history_limit),
    ):
        ended = sorted((job for job in jobs if end_of(job) == end), key=_begin)
        old += ended[: max(0, len(ended) - limit)]
    return old


def _begin(job: Job) -> tuple[bool, str, str]:
    start = str(job.status.get("startTime") or "")
    return not start, start, job.metadata.name


# -- the next job --------------------------------------------------------------------------------


def _start(plan: Plan, cron_job: CronJob, jobs: Sequence[Job], now: datetime) -> None:
    spec = cron_job.spec
    try:
        schedule = cron_schedule.parse(spec.schedule, cron_schedule.time_zone(spec.time_zone))
    except ValueError as error:
        text = f'unparseable schedule: "{spec.schedule}" : {error}'
        plan.events.append(EventText("UnparseableSchedule", text, "Warning"))
        return
    begin = _begin_of(cron_job)
    deadline = spec.starting_deadline_seconds
    earliest = begin if deadline is None else max(begin, shifted(now, -deadline))
    due, missed = most_recent(schedule, earliest, now)
    if missed > _MANY:
        text = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check"
            " clock skew"
        )
        plan.events.append(EventText("TooManyMissedTimes", text, "Warning"))
    following = schedule.next_after(due or begin)
    if following is not None and following <= now:
        following = schedule.next_after(now)
    plan.again = None if following is None else (following - now).total_seconds() + _SKEW
    if due is not None and _may_start(plan, cron_job, due, now):
        plan.create = due
        if spec.concurrency_policy == "Replace":
            active = {reference.get("uid") for reference in plan.status.get("active") or ()}
            plan.delete += [job for job in jobs if job.metadata.uid in active]
            _set(plan.status, "active", None)


def _begin_of(cron_job: CronJob) -> datetime:
    """The last time of the schedule that had a job, else the creation."""
    last = read_timestamp(str(cron_job.status.get("lastScheduleTime") or ""))
    created = cron_job.metadata.creation_timestamp
    return last or created or datetime.fromtimestamp(0, UTC)


def most_recent(
    schedule: Schedule, earliest: datetime, now: datetime
) -> tuple[datetime | None, int]:
    """The last time of the schedule after `earliest` and not after `now`, and about how many."""
    first = schedule.next_after(earliest)
    if first is None or first > now:
        return None, 0
    second = schedule.next_after(first)
    if second is None or second > now:
        return first, 1
    gap = second - first
    count = (now - first) // gap + 1
    # Counting each time would take too long after years, so the search starts near the end. In an
    # uneven schedule there may be no time so late: then it starts earlier, but never so early that
    # many times follow.
    back = gap
    following = schedule.next_after(max(earliest, now - back))
    while following is None or following > now:
        back *= 2
        following = schedule.next_after(max(earliest, shifted(now, -back.total_seconds())))
    recent = first
    while following is not None and following <= now:
        recent, following = following, schedule.next_after(following)
    return recent, count


def _may_start(plan: Plan, cron_job: CronJob, due: datetime, now: datetime) -> bool:
    spec, active = cron_job.spec, plan.status.get("active") or ()
    deadline = spec.starting_deadline_seconds
    if deadline is not None and shifted(due, deadline) < now:
        text = f"Missed scheduled time to start a job: {due:%a, %d %b %Y %H:%M:%S +0000}"
        plan.events.append(EventText("MissSchedule", text, "Warning"))
        return False
    if any(reference.get("name") == job_name(cron_job, due) for reference in active):
        return False
    if spec.concurrency_policy == "Forbid" and active:
        text = (
            "Not starting job because prior execution is running and concurrency policy is Forbid"
        )
        plan.events.append(EventText("JobAlreadyActive", text))
        return False
    return True


def job_name(cron_job: CronJob, due: datetime) -> str:
    return f"{cron_job.metadata.name}-{int(due.timestamp()) // 60}"


def new_job(cron_job: CronJob, due: datetime) -> Raw:
    """The manifest of the job for this time."""
    template, meta = cron_job.spec.job_template, cron_job.metadata
    copied = template.get("metadata") or {}
    local = due.astimezone(cron_schedule.time_zone(cron_job.spec.time_zone))
    return {
        "metadata": {
            "name": job_name(cron_job, due),
            "namespace": meta.namespace,
            "labels": dict(copied.get("labels") or {}),
            "annotations": {
                **(copied.get("annotations") or {}),
                _TIME: local.isoformat(timespec="seconds").replace("+00:00", "Z"),
            },
            "ownerReferences": [owner_reference(CRON_JOBS, meta)],
        },
        "spec": template.get("spec") or {},
    }


def with_new_job(status: Raw, job: Job, due: datetime) -> Raw:
    """The status once the job exists."""
    meta = job.metadata
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta.name,
        "namespace": meta.namespace,
        "resourceVersion": meta.resource_version,
        "uid": meta.uid,
    }
    active = [*(status.get("active") or ()), reference]
    return {**status, "active": active, "lastScheduleTime": timestamp(due)}


class CronJobController(OwnerController[CronJob, Job]):
    def possible_owners(self, orphan: Job) -> Iterable[Key]:
        """None: a cron job adopts no job."""
        return ()

    async def visit(self, owner: CronJob) -> float | None:
        meta = owner.metadata
        jobs = self.objects.by(OWNER, meta.uid)
        plan = decide(owner, jobs, self.pod_control.clock())
        for event in plan.events:
            self.pod_control.record(meta, event)
        await self._delete(owner, plan.delete)
        status = plan.status
        if plan.create is not None:
            job = await self._create(owner, plan.create)
            if job is not None:
                status = with_new_job(status, job, plan.create)
        await self.pod_control.write_status(meta, owner.status, status)
        return plan.again

    async def _create(self, cron_job: CronJob, due: datetime) -> Job | None:
        """The job for this time; None if somebody else has made one of its name."""
        control, meta = self.pod_control, cron_job.metadata
        body = new_job(cron_job, due)
        name = body["metadata"]["name"]
        try:
            with control.expectations.creation(meta.uid, name):
                job = await control.client.create(JOBS, body)
        except AlreadyExists:
            job = await control.client.get(JOBS, meta.key._replace(name=name))
            owner = job.metadata.controller
            return job if owner is not None and owner.uid == meta.uid else None
        except MusterError as error:
            text = f"Error creating job: {error}"
            control.record(meta, EventText("FailedCreate", text, "Warning"))
            raise
        control.record(meta, EventText("SuccessfulCreate", f"Created job {name}"))
        return job

    async def _delete(self, cron_job: CronJob, jobs: Iterable[Job]) -> None:
        control = self.pod_control
        for job in jobs:
            meta = job.metadata
            with contextlib.suppress(NotFound):
                await control.client.delete(JOBS, meta.key, uid=meta.uid, propagation="Background")
                text = EventText("SuccessfulDelete", f"Deleted job {meta.name}")
                control.record(cron_job.metadata, text)
