"""Job and CronJob (batch): defaults, checks, columns.

A job finds its pods by its uid: the server adds the selector and the labels to a new job.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import read_timestamp
from localkube import cron_schedule
from localkube.apiserver import causes, rules
from localkube.apiserver.codec import at
from localkube.apiserver.kinds import pod_spec, pod_templates
from localkube.apiserver.kinds.field_rules import (
    check_not_negative,
    check_required,
    each,
    ensure_map,
    fill,
    one_of,
)
from localkube.apiserver.resource import STATUS, Resource
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes


# -- Job -----------------------------------------------------------------------------------------

_NUMBERS = (
    "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds",
    "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_NO_LIMIT = 2**31 - 1
_COMPLETION_MODES = ("NonIndexed", "Indexed")
_INDEXED_ONLY = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to"
    " remove them or set propagationPolicy=Orphan to suppress this warning"
)
_ENDS = ("Complete", "Failed", "Suspended")


def _failure_rules(spec: Raw) -> Sequence[Raw]:
    return (spec.get("podFailurePolicy") or {}).get("rules") or ()


def _complete_job_template(spec: Raw) -> None:
    """Fill in the defaults that the template of a cron job has too."""
    for rule in _failure_rules(spec):
        for row in rule.get("onPodConditions") or ():
            fill(row, status="True")
    pod_templates.complete_template(spec)


def _complete_job(job: Raw) -> None:
    spec = ensure_map(job, "spec")
    _complete_job_template(spec)
    fill(
        spec,
        completionMode="NonIndexed",
        manualSelector=False,
        suspend=False,
        backoffLimit=6 if spec.get("backoffLimitPerIndex") is None else _NO_LIMIT,
        podReplacementPolicy="Failed" if _failure_rules(spec) else "TerminatingOrFailed",
    )
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(spec, parallelism=1)
    _copy_labels(job)
    fill(job, status={})


def _copy_labels(job: Raw) -> None:
    """Give a job without labels the labels of its pods.

    It is the same map, so that a new job also gets the labels that its pods get later.
    """
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = labels


def _finish_create(job: Raw, now: str) -> None:
    """Give the job a selector and its template labels with its UID.

    A name could not serve: a job of the same name may be created while pods of the old job run.
    """
    if job["spec"].get("manualSelector"):
        return
    uid, name = job["metadata"].get("uid"), job["metadata"].get("name")
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    fill(ensure_map(job["spec"]["template"]["metadata"], "labels"), **labels)
    _copy_labels(job)
    fill(job["spec"], selector={"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})


def _check_job(job: Raw) -> Causes:
    spec: Raw = job["spec"]
    yield from check_required(spec, "spec", "selector")
    yield from _check_job_fields(spec)
    yield from pod_templates.check_template_labels(spec, None)
    yield from _check_job_template(spec)


def _check_job_fields(spec: Raw) -> Causes:
    """The causes for invalid numbers and policies."""
    yield from check_not_negative(spec, *_NUMBERS)
    yield from one_of(spec, "completionMode", _COMPLETION_MODES, "spec")
    yield from _check_indexes(spec)
    replaced = ("Failed",) if spec.get("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
    yield from one_of(spec, "podReplacementPolicy", replaced, "spec")


def _check_job_template(spec: Raw) -> Causes:
    """The causes for an invalid template of pods that end."""
    template = spec["template"]["spec"]
    yield from pod_spec.check_pod_spec(template, "spec.template.spec")
    field, restart = "spec.template.spec.restartPolicy", template.get("restartPolicy")
    if restart in (None, "", "Always"):  # the default of other pods
        yield causes.required(field, 'valid values: "OnFailure", "Never"')
    elif restart not in ("OnFailure", "Never"):
        yield causes.not_supported(field, restart, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") and restart != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield causes.invalid(field, restart, detail)


def _check_indexes(spec: Raw) -> Causes:
    """Fields that only a job with indexed pods has."""
    indexed, completions = spec.get("completionMode") == "Indexed", spec.get("completions")
    if indexed and completions is None:
        yield causes.required("spec.completions", "when completion mode is Indexed")
    most = spec.get("maxFailedIndexes")
    if most is not None and spec.get("backoffLimitPerIndex") is None:
        yield causes.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if not indexed:
        detail = "requires indexed completion mode"
        for field in _INDEXED_ONLY:
            if spec.get(field) is not None:
                yield causes.invalid(f"spec.{field}", spec[field], detail)
        return
    if most is not None and completions is not None and most > completions:
        detail = "must be less than or equal to completions"
        yield causes.invalid("spec.maxFailedIndexes", most, detail)
    if spec.get("successPolicy") is not None:
        yield from _check_success(spec["successPolicy"], completions or 0)


def _check_success(policy: Raw, completions: int) -> Causes:
    if not policy.get("rules"):
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield causes.required("spec.successPolicy.rules", detail)
    for path, rule in each(policy, "spec.successPolicy", "rules"):
        count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            detail = "at least one of succeededCount or succeededIndexes must be specified"
            yield causes.required(path, detail)
        if indexes is not None and (problem := _indexes_problem(indexes, completions)):
            detail = f"error parsing succeededIndexes: {problem}"
            yield causes.invalid(f"{path}.succeededIndexes", indexes, detail)
        if count is not None and count > completions:
            detail = (
                f"must be less than or equal to {completions} (the number of specified completions)"
            )
            yield causes.invalid(f"{path}.succeededCount", count, detail)


def _indexes_problem(indexes: str, completions: int) -> str:
    """The problem of a text such as `0,2-4`: its numbers must grow and be below `completions`."""
    last = -1
    for index in indexes.replace("-", ",").split(","):
        number = read_integer(index)
        if number is None:
            return f'cannot convert string to integer for index: "{index}"'
        if number >= completions:
            return f'too large index: "{index}"'
        if number <= last:
            return f"non-increasing order, previous: {last}, current: {index}"
        last = number
    return ""


def _check_update(new: Raw, old: Raw) -> Causes:
    """The cause for other completions, unless pods are indexed and all run at once."""
    spec = new["spec"]
    completions, before = spec.get("completions"), old["spec"].get("completions")
    if completions == before:
        return
    if spec.get("completionMode") != "Indexed" or None in (completions, before):
        yield causes.invalid("spec.completions", completions, "field is immutable")
    elif completions != spec.get("parallelism"):
        detail = "can only be modified in tandem with spec.parallelism"
        yield causes.invalid("spec.completions", completions, detail)


def _completions(job: Raw, now: datetime) -> str:
    succeeded, completions = cells.number(job, "status.succeeded"), at(job, "spec.completions")
    if completions is None:
        completions = f"1 of {cells.number(job, 'spec.parallelism')}"
    return f"{succeeded}/{completions}"


def _duration(job: Raw, now: datetime) -> str:
    start = cells.text(job, "status.startTime")
    end = read_timestamp(cells.text(job, "status.completionTime"))
    return cells.age(start, end or now) if start else ""


JOBS = Resource(
    "batch", "v1", "jobs", "Job", categories=("all",), subresources=STATUS,
    fields=("status.successful",),
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=_complete_job, finish_create=_finish_create),
        checks=rules.Checks(
            always=_check_job,
            immutable=(
                "spec.selector", "spec.template", "spec.completionMode", "spec.podFailurePolicy",
                "spec.backoffLimitPerIndex", "spec.successPolicy",
            ),
            update=_check_update,
        ),
        generation="spec",
        deletion=rules.Deletion(orphan_warning=_ORPHANS),
        table=rules.Table(cells.NAME | {
            "Status": lambda job, now: next(
                (end for end in _ENDS if cells.condition_is_true(job, end)), "Running"
            ),
            "Completions": _completions,
            "Duration": _duration,
        } | cells.AGE | pod_templates.columns()),
    ),
)  # fmt: skip


# -- CronJob -------------------------------------------------------------------------------------

_POLICIES = ("Allow", "Forbid", "Replace")
_MAX_NAME = 52
"""The time of a job, which is appended, has eleven characters."""
_ZONE_PART = re.compile(r"(?!\.{1,2}$|-)[A-Za-z.\-_0-9+]{1,14}")
_ZONE_PREFIX = re.compile(r"(CRON_)?TZ=\S* ")
_ZONE_IN_SCHEDULE = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
_LOCAL_ZONE = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
_TEMPLATE = "spec.jobTemplate."


def _complete_cron_job(cron_job: Raw) -> None:
    spec = fill(ensure_map(cron_job, "spec"), concurrencyPolicy="Allow", suspend=False)
    fill(spec, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template = ensure_map(spec, "jobTemplate")
    ensure_map(template, "metadata")
    _complete_job_template(ensure_map(template, "spec"))
    fill(cron_job, status={})


def _check_cron_job(cron_job: Raw) -> Causes:
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
        yield causes.required(path)
        return
    zoneless = _ZONE_PREFIX.sub("", schedule)
    yield from _raised(path, schedule, lambda: cron_schedule.parse(zoneless))
    if "TZ" in schedule:
        yield causes.invalid(path, schedule, _ZONE_IN_SCHEDULE)


def _check_zone(zone: str | None) -> Causes:
    path = "spec.timeZone"
    if zone is None:
        return
    if not zone:
        yield causes.invalid(path, zone, "timeZone must be nil or non-empty string")
    elif not all(map(_ZONE_PART.fullmatch, zone.split("/"))):
        yield causes.invalid(path, zone, f"unknown time zone {zone}")
    elif zone.lower() == "local":
        yield causes.invalid(path, zone, _LOCAL_ZONE)
    else:
        yield from _raised(path, zone, lambda: cron_schedule.time_zone(zone))


def _raised(path: str, value: str, read: Callable[[], object]) -> Causes:
    """The cause for a text that cannot be read."""
    try:
        read()
    except ValueError as error:
        yield causes.invalid(path, value, str(error))


def _check_template(spec: Raw) -> Causes:
    for cause in (*_check_job_fields(spec), *_check_job_template(spec)):
        yield cause._replace(field=_TEMPLATE + cause.field)
    if spec.get("selector") is not None:
        detail = "`selector` will be auto-generated"
        yield causes.invalid(f"{_TEMPLATE}spec.selector", spec["selector"], detail)
    if spec.get("manualSelector"):
        yield causes.not_supported(f"{_TEMPLATE}spec.manualSelector", True, ("nil", "false"))


def _check_create(cron_job: Raw) -> Causes:
    name = cron_job["metadata"].get("name") or ""
    if len(name) > _MAX_NAME:
        yield causes.invalid("metadata.name", name, f"must be no more than {_MAX_NAME} characters")


def _last_schedule(cron_job: Raw, now: datetime) -> str:
    last = cells.text(cron_job, "status.lastScheduleTime")
    return cells.age(last, now) if last else cells.NONE


CRON_JOBS = Resource(
    "batch", "v1", "cronjobs", "CronJob", short=("cj",), categories=("all",), subresources=STATUS,
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=_complete_cron_job),
        checks=rules.Checks(always=_check_cron_job, create=_check_create),
        generation="spec",
        table=rules.Table(cells.NAME | {
            "Schedule": cells.text_at("spec.schedule"),
            "Timezone": cells.text_at("spec.timeZone", cells.NONE),
            "Suspend": lambda obj, now: str(bool(at(obj, "spec.suspend"))),
            "Active": lambda obj, now: len(cells.rows(obj, "status.active")),
            "Last Schedule": _last_schedule,
        } | cells.AGE | pod_templates.columns("spec.jobTemplate.spec")),
    ),
)  # fmt: skip
