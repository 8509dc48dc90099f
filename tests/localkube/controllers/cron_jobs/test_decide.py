"""The next steps of a cron job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kubekit.objects.meta import timestamp
from localkube.controllers.cron_job_controller import Plan, decide, new_job, with_new_job
from localkube.controllers.workloads import CronJob, Job

NOW = datetime(2026, 3, 4, 12, 0, 30, tzinfo=UTC)


def ago(**span: float) -> str:
    return timestamp(NOW - timedelta(**span))


def cron_job(schedule: str = "0 * * * *", last: str = "", **spec: Any) -> CronJob:
    meta = {"name": "c", "namespace": "n", "uid": "u", "creationTimestamp": ago(minutes=90)}
    status = {"lastScheduleTime": last} if last else {}
    body = {"metadata": meta, "spec": {"schedule": schedule, **spec}, "status": status}
    return msgspec.convert(body, CronJob)


def job(name: str, end: str = "", hours: int = 1, **status: Any) -> Job:
    conditions = [{"type": end, "status": "True"}] if end else []
    begin = ago(hours=hours)
    body = {
        "metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}"},
        "status": {"conditions": conditions, "startTime": begin, "completionTime": begin, **status},
    }
    return msgspec.convert(body, Job)


def running(owner: CronJob, *jobs: Job) -> CronJob:
    """The cron job with these jobs in its status."""
    active = [{"name": j.metadata.name, "uid": j.metadata.uid} for j in jobs]
    return msgspec.structs.replace(owner, status={**owner.status, "active": active})


def reasons(plan: Plan) -> list[str]:
    return [event.reason for event in plan.events]


def test_a_time_that_has_come_gets_one_job() -> None:
    owner = cron_job(last=ago(hours=1, seconds=30))

    plan = decide(owner, [], NOW)

    assert plan.create == datetime(2026, 3, 4, 12, tzinfo=UTC)
    assert plan.again == 3600 - 30 + 0.1
    created = job("c-29543760")
    status = with_new_job(plan.status, created, plan.create)
    assert [row["name"] for row in status["active"]] == ["c-29543760"]
    after = msgspec.structs.replace(owner, status=status)
    assert decide(after, [created], NOW).create is None


def test_nothing_happens_before_the_first_time_and_while_suspended() -> None:
    early = decide(cron_job("0 0 1 1 *"), [], NOW)
    suspended = decide(cron_job(suspend=True), [], NOW)

    assert (early.create, suspended.create) == (None, None)
    assert early.again is not None
    assert suspended.again is None


def test_only_the_last_of_many_missed_times_gets_a_job() -> None:
    plan = decide(cron_job("* * * * *", last=ago(days=400)), [], NOW)

    assert plan.create == NOW.replace(second=0)
    assert reasons(plan) == ["TooManyMissedTimes"]


@pytest.mark.parametrize(
    ("schedule", "last"),
    [
        ("0 0 1,2 1 *", datetime(2026, 1, 2, tzinfo=UTC)),
        ("* * 1 1 *", datetime(2026, 1, 1, 23, 59, tzinfo=UTC)),
        ("0 0 1 1,7 *", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_the_last_missed_time_counts_however_uneven_the_schedule_is(
    schedule: str, last: datetime
) -> None:
    assert decide(cron_job(schedule, last=ago(days=800)), [], NOW).create == last


def test_a_time_beyond_the_deadline_is_missed() -> None:
    late = decide(cron_job(startingDeadlineSeconds=10), [], NOW)
    in_time = decide(cron_job(startingDeadlineSeconds=100), [], NOW)

    assert late.create is None
    assert in_time.create is not None


def test_forbid_waits_for_the_running_job_and_replace_deletes_it() -> None:
    before = job("before")

    forbidden = decide(running(cron_job(concurrencyPolicy="Forbid"), before), [before], NOW)
    replaced = decide(running(cron_job(concurrencyPolicy="Replace"), before), [before], NOW)
    allowed = decide(running(cron_job(), before), [before], NOW)

    assert (forbidden.create, reasons(forbidden)) == (None, ["JobAlreadyActive"])
    assert replaced.create is not None
    assert replaced.delete == [before]
    assert "active" not in replaced.status
    assert allowed.create is not None
    assert len(allowed.status["active"]) == 1


def test_jobs_that_ended_or_vanished_are_no_longer_active() -> None:
    done, failed, runs = job("done", "Complete"), job("failed", "Failed"), job("runs")
    owner = running(cron_job(suspend=True), done, failed, runs, job("gone"))

    plan = decide(owner, [done, failed, runs], NOW)

    assert [row["name"] for row in plan.status["active"]] == ["runs"]
    assert plan.status["lastSuccessfulTime"] == ago(hours=1)
    assert reasons(plan) == ["SawCompletedJob", "SawCompletedJob", "MissingJob"]


def test_the_oldest_jobs_beyond_the_history_are_deleted() -> None:
    done = [job(f"done-{hours}", "Complete", hours) for hours in (1, 2, 3, 4, 5)]
    failed = [job(f"failed-{hours}", "Failed", hours) for hours in (1, 2)]

    plan = decide(cron_job(suspend=True), [*done, *failed], NOW)

    assert {j.metadata.name for j in plan.delete} == {"done-4", "done-5", "failed-2"}


def test_a_schedule_that_cannot_be_read_is_an_event() -> None:
    assert reasons(decide(cron_job("x"), [], NOW)) == ["UnparseableSchedule"]
    assert reasons(decide(cron_job(timeZone="No/Where"), [], NOW)) == ["UnparseableSchedule"]


def test_a_job_has_the_template_and_its_time() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 2}}
    owner = cron_job(jobTemplate=template, timeZone="Europe/Berlin")

    body = new_job(owner, datetime(2026, 3, 4, 12, tzinfo=UTC))

    assert body["metadata"]["labels"] == {"a": "b"}
    assert list(body["metadata"]["annotations"].values()) == ["2026-03-04T13:00:00+01:00"]
    assert body["spec"] == {"parallelism": 2}
