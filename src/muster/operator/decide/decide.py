"""What must be done about one job: pure, and idempotent.

`decide(job, seen, settings, now)` is called by `reconcile` on every change, by `--dry-run` with
nothing seen, and by the property tests. Its answer is in order: status before the deletions that it
accounts for, the gang's object and services before pods, and at the end the gang's object goes
before pods are cleaned, so that no scheduler holds room for them.

Promise: when its actions have been carried out, it answers nothing but timers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.kinds import SERVICES
from muster.api.meta import timestamp
from muster.jobs.job import MANAGED_BY_MUSTER, Job
from muster.operator.actions import Action, Delete, DeleteJob, EmitEvent, PatchStatus, Requeue
from muster.operator.build import gang
from muster.operator.build.labels import role_of
from muster.operator.decide import (
    adoption,
    backoff,
    conditions,
    ensure,
    gang_object,
    invalid_spec,
    waiting_reason,
)
from muster.operator.decide.outcome import (
    assess,
    ended_by_limit,
    seconds_to_deadline,
    seconds_to_start,
)
from muster.operator.frameworks import registry
from muster.operator.observed import marked_for_deletion

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.operator.observed import Observed
    from muster.operator.settings import Settings


def decide(job: Job, observed: Observed, settings: Settings, now: datetime) -> list[Action]:
    """The actions, in order, that bring this job on."""
    if job.deleting or job.policy.managed_by not in MANAGED_BY_MUSTER:
        return []
    before = invalid_spec.current_status(job)
    if conditions.outcome(before) is not None:
        return end(job, before, observed, now)
    current, events = _begun(job, before, now)
    if not conditions.condition(before, "Created"):
        events.extend(gang.warnings(job, observed, settings))
    if job.policy.suspend:
        return _suspend(job, current, events, observed, now)
    if conditions.is_true(current, "Suspended"):
        current = conditions.resumed(job, current, now)
        events.append(EmitEvent(f"{job.kind}Resumed", f"{job.kind} {job.name} is resumed."))
    wanted = registry.framework_of(job).replicas(job, observed)
    present = {pod.metadata.name: pod for pod in (*observed.pods, *observed.orphans)}
    mine = [present[replica.name] for replica in wanted if replica.name in present]
    current, strangers = adoption.report_unclaimed(current, wanted, observed)
    events.extend(strangers)
    found = assess(job, current, mine, wanted, now)
    events.extend(found.events)
    claimed = adoption.adopt_and_release(job, wanted, observed, settings)
    if conditions.outcome(found.status) is not None:
        final = conditions.with_active(job, found.status, _kept(job, found.status, observed))
        return [*claimed, *_written(job, final, events), *end(job, final, observed, now)]
    refused = job.invalid if job.from_pods else invalid_spec.refusal_of_pods(before, job)
    if refused and not invalid_spec.keeps_running(_formed(job, before, mine), observed.pods):
        return [*invalid_spec.fail(job, current, refused, now), Requeue(0.0)]
    # From here on everything is as it will be when the actions so far are done.
    moved = replace(job, status=_formed(job, found.status, mine))
    observed = _leaving(observed, found.leaving, now)
    wanted = registry.framework_of(job).replicas(moved, observed)
    extra = ensure.surplus_pods(moved, wanted, observed)
    extra += ensure.pods_of_another_dialect(moved, _leaving(observed, extra, now), settings)
    staying = _leaving(observed, extra, now)
    absent = ensure.without_pod(wanted, staying)
    held = backoff.reason(moved.status, absent, now) or waiting_reason.terminating_pods(
        wanted, staying
    )
    after, troubles = waiting_reason.explain(moved, mine, observed, held)
    return [
        *claimed,
        *_written(job, after, [*events, *troubles]),
        *ensure.delete_pods(found.leaving),
        *ensure.delete_pods(extra),
        *(ensure.delete_unused_services(moved, observed) if not job.from_pods else ()),
        *(ensure.create_missing(moved, absent, staying, settings, now) if not refused else ()),
        *(ensure.delete_pods(ensure.unscheduled_pods(staying)) if refused else ()),
        *_deadline(job, found.status, now),
    ]


def _begun(job: Job, before: Raw, now: datetime) -> tuple[Raw, list[EmitEvent]]:
    """The status of a job that has been noticed, and what is to be said on that occasion."""
    events: list[EmitEvent] = []
    current = {"startTime": timestamp(now), **before, "observedGeneration": job.generation}
    if not conditions.condition(before, "Created"):
        message = f"{job.kind} {job.name} is created."
        reason = f"{job.kind}Created"
        current = conditions.with_condition(current, "Created", "True", reason, message, now)
        events = [EmitEvent(why, words, "Warning") for why, words in job.warnings]
    if job.invalid:
        known = conditions.condition(before, invalid_spec.INVALID) or {}
        current = invalid_spec.with_invalid_condition(current, job.generation, job.invalid, now)
        if known.get("message") != job.invalid:
            events.append(EmitEvent(invalid_spec.INVALID, job.invalid, "Warning"))
    return current, events


def refuse(job: Job, message: str, observed: Observed, now: datetime) -> list[Action]:
    """What to do about a job some of whose pods the API server does not take, with these words."""
    before = invalid_spec.current_status(job)
    if conditions.outcome(before) is not None:
        return []
    current, _ = _begun(job, before, now)
    if not invalid_spec.keeps_running(before, observed.pods):
        return invalid_spec.fail(job, current, message, now)
    after = invalid_spec.with_invalid_condition(current, job.generation, message, now)
    return invalid_spec.write_status(job.status, after, message)


def _formed(job: Job, current: Raw, mine: list[Pod]) -> Raw:
    """The status, which remembers that all members had started once."""
    whole = sum(pod.status.phase not in ("", "Pending") for pod in mine) >= job.total > 0
    return {**current, "formed": True} if whole and not current.get("formed") else current


def _suspend(
    job: Job, current: Raw, events: list[EmitEvent], observed: Observed, now: datetime
) -> list[Action]:
    if not conditions.is_true(current, "Suspended"):
        events.append(EmitEvent(f"{job.kind}Suspended", f"{job.kind} {job.name} is suspended."))
    after = conditions.suspended(job, current, now)
    after = {
        name: value for name, value in after.items() if name not in conditions.TRANSIENT_FIELDS
    }
    return [
        *_written(job, after, events),
        *gang_object.delete_group_objects(job, observed),
        *ensure.delete_pods(conditions.not_terminating(observed.pods)),
        *(Delete(SERVICES, name) for name in sorted(ensure.service_names(observed))),
    ]


def end(job: Job, final: Raw, observed: Observed, now: datetime) -> list[Action]:
    """A finished job: clean up as its policy says, and go when its time is up."""
    kept = _kept(job, final, observed)
    staying = {pod.metadata.uid for pod in kept}
    leaving = [
        pod for pod in conditions.not_terminating(observed.pods) if pod.metadata.uid not in staying
    ]
    used = {pod.metadata.name for pod in kept if pod.finished}
    unused = ensure.service_names(observed) - used if _policy(job, final) != "None" else set()
    change = conditions.merge_patch(final, conditions.with_active(job, final, kept))
    return [
        *([PatchStatus(change)] if change else ()),
        *gang_object.delete_group_objects(job, observed),
        *ensure.delete_pods(leaving),
        *(Delete(SERVICES, name) for name in sorted(unused)),
        *_expiry(job, final, now),
    ]


def _kept(job: Job, final: Raw, observed: Observed) -> list[Pod]:
    """The pods that a finished job does not take away."""
    policy = _policy(job, final)
    return [pod for pod in observed.pods if not _cleaned(job, pod, policy)]


def _policy(job: Job, final: Raw) -> str:
    if job.policy.clean_pod_policy == "None" and (
        ended_by_limit(job, final) or invalid_spec.is_rejected(final)
    ):
        return "Running"  # A limit, or that it can never be whole: nothing of it may run on.
    return job.policy.clean_pod_policy


def _cleaned(job: Job, pod: Pod, policy: str) -> bool:
    """Whether the end of the job takes this pod away. A launcher's log is the job's: it stays."""
    if policy == "None" or (pod.finished and role_of(job, pod) == "Launcher"):
        return False
    return policy == "All" or not pod.finished


def _leaving(observed: Observed, gone: Iterable[Pod], now: datetime) -> Observed:
    """What will be seen when the deletion of these pods has been asked for."""
    uids = {pod.metadata.uid for pod in gone}
    return replace(
        observed,
        pods=tuple(
            marked_for_deletion(p, now) if p.metadata.uid in uids else p for p in observed.pods
        ),
    )


def _written(job: Job, after: Raw, events: list[EmitEvent]) -> list[Action]:
    change = conditions.merge_patch(
        job.status, conditions.with_phases(after) if job.has_phases else after
    )
    return [PatchStatus(change), *events] if change else []


def _deadline(job: Job, current: Raw, now: datetime) -> list[Action]:
    both = (seconds_to_deadline(job, current, now), seconds_to_start(job, current, now))
    return [Requeue(left) for left in both if left is not None]


def _expiry(job: Job, final: Raw, now: datetime) -> list[Action]:
    end = conditions.time(final, "completionTime")
    if job.policy.ttl_seconds is None or end is None:
        return []
    left = job.policy.ttl_seconds - (now - end).total_seconds()
    return [Requeue(left)] if left > 0 else [DeleteJob()]
