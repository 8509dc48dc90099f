"""CronJob: defaults, checks of the schedule and of the job's template, columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from localkube import cron_schedule
from localkube.apiserver.api_errors import Causes, invalid_value, not_supported, required
from localkube.apiserver.codec import at
from localkube.apiserver.kinds.fields import check_not_negative, ensure_map, fill, one_of
from localkube.apiserver.kinds.pods import pod_template
from localkube.apiserver.kinds.workloads import batch_job
from localkube.apiserver.resource import STATUS, Resource, Strategy
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kubekit.objects.meta import Raw

_POLICIES = ("Allow", "Forbid", "Replace")
_MAX_NAME = 52
"""The time of a job, which is appended, has eleven characters."""
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_ZONE_PREFIX = re.compile(r"(CRON_)?TZ=\S* ")
_ZONE_IN_SCHEDULE = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
_LOCAL_ZONE = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
_TEMPLATE = "spec.jobTemplate."


def _defaults(cron_job: Raw) -> None:
    spec = fill(
        ensure_map(cron_job, "spec"),
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    template = ensure_map(spec, "jobTemplate")
    ensure_map(template, "metadata")
    batch_job.complete_job_template(ensure_map(template, "spec"))
    fill(cron_job, status={})


# -- checks --------------------------------------------------------------------------------------


def _check(cron_job: Raw) -> Causes:
    spec: Raw = cron_job["spec"]
    yield from _check_schedule(str(spec.get("schedule") or ""))
    yield from check_not_negative(spec, "startingDeadlineSeconds")
    yield from _check_zone(spec.get("timeZone"))
    yield from one_of(spec, "concurrencyPolicy", _POLICIES, "spec")
    yield from _check_template(spec["jobTemplate"]["spec"])
    yield from check_not_negative(spec, "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _check_schedule(schedule: str) -> Causes:
    path = "spec.schedule"
    if not schedule:
        yield required(path)
        return
    zoneless = _ZONE_PREFIX.sub("", schedule)
    yield from _raised(path, schedule, lambda: cron_schedule.parse(zoneless))
    if "TZ" in schedule:
        yield invalid_value(path, schedule, _ZONE_IN_SCHEDULE)


def _check_zone(zone: str | None) -> Causes:
    path = "spec.timeZone"
    if zone is None:
        return
    if not zone:
        yield invalid_value(path, zone, "timeZone must be nil or non-empty string")
        return
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            yield invalid_value(path, zone, f"unknown time zone {zone}")
            return
    if zone.lower() == "local":
        yield invalid_value(path, zone, _LOCAL_ZONE)
    else:
        yield from _raised(path, zone, lambda: cron_schedule.time_zone(zone))


def _raised(path: str, value: str, read: Callable[[], object]) -> Causes:
    """The cause for a text that cannot be read."""
    try:
        read()
    except ValueError as error:
        yield invalid_value(path, value, str(error))


def _check_template(spec: Raw) -> Causes:
    for cause in (*batch_job.check_job_fields(spec), *batch_job.check_job_template(spec)):
        yield cause._replace(field=_TEMPLATE + cause.field)
    if spec.get("selector") is not None:
        detail = "`selector` will be auto-generated"
        yield invalid_value(f"{_TEMPLATE}spec.selector", spec["selector"], detail)
    if spec.get("manualSelector"):
        yield not_supported(f"{_TEMPLATE}spec.manualSelector", True, ("nil", "false"))


def _check_create(cron_job: Raw) -> Causes:
    name = cron_job["metadata"].get("name") or ""
    if len(name) > _MAX_NAME:
        detail = f"must be no more than {_MAX_NAME} characters"
        yield invalid_value("metadata.name", name, detail)


# -- columns -------------------------------------------------------------------------------------


def _active(cron_job: Raw, now: datetime) -> int:
    return len(cells.rows(cron_job, "status.active"))


def _last_schedule(cron_job: Raw, now: datetime) -> str:
    last = cells.text(cron_job, "status.lastScheduleTime")
    return cells.age(last, now) if last else cells.NONE


def _of_template(cell: cells.Cell) -> cells.Cell:
    return lambda cron_job, now: cell(at(cron_job, "spec.jobTemplate") or {}, now)


CRON_JOBS = Resource(
    "batch", "v1", "cronjobs", "CronJob", short=("cj",), categories=("all",), subresources=STATUS,
    strategy=Strategy(
        defaults=_defaults,
        check=_check,
        check_create=_check_create,
        generation="spec",
        columns=cells.NAME | {
            "Schedule": cells.text_at("spec.schedule"),
            "Timezone": cells.text_at("spec.timeZone", cells.NONE),
            "Suspend": lambda obj, now: str(bool(at(obj, "spec.suspend"))),
            "Active": _active,
            "Last Schedule": _last_schedule,
        } | cells.AGE | {name: _of_template(cell) for name, cell in pod_template.COLUMNS.items()},
    ),
)  # fmt: skip
