"""The decision about one job: which actions bring its objects closer to its spec.

`decide` is a pure function: the same code serves the control loop and the property tests. It is
idempotent: when its actions have been carried out, the next decision contains nothing but timers.
For a new job the second decision writes the status. A crash between two actions does no harm,
because the next decision orders the rest.

The order of the actions matters. The status is written before the deletions that it counts: after a
crash in between, the deletions are repeated but not counted twice. The gang's object and services
come before pods, so that no pod starts without its gang or its host name. When a job ends, its
gang's object is deleted before its pods, so that no scheduler holds room for replacements.

`before` is the status as it was read, `after` the status to write; each step in between takes the
status of the step before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.contract.waiting_line_format import place_on
from muster.jobs import pod_status
from muster.jobs.job import MANAGED_BY_MUSTER, MULTIKUEUE, Job
from muster.jobs.job_status import QUOTA_EXCEEDED, TERMINATING, JobStatus, Waiting, status_change
from muster.jobs.unknown_fields import summary, unknown_fields_of_spec
from muster.operator.build import gang
from muster.operator.decide import (
    job_conditions,
    job_end,
    owned_objects,
    pod_failure,
    quota_turn,
    restarts,
)
from muster.operator.decide.job_outcome import assess
from muster.operator.decide.owned_objects import delete_group_objects, event_of_deletion
from muster.operator.decision_types import (
    NAME_TAKEN,
    Action,
    Create,
    Delete,
    EmitEvent,
    PatchStatus,
    RecordExits,
    Report,
    Requeue,
    VerifyJob,
    with_deletions,
)
from muster.operator.frameworks import framework_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, Replica
    from muster.jobs.job_status import JobStatus
    from muster.operator.decision_types import Observed, Settings

_ORDINARY = ("", "ContainerCreating", "PodInitializing")
_SAME_PROBLEM = {"ErrImagePull": "ImagePullBackOff"}
"""A node alternates between these two reasons; without this, each change would be an event."""


def decide(job: Job, observed: Observed, settings: Settings, now: datetime) -> list[Action]:
    """The actions for this job, in order."""
    job = restarts.with_default_scope(job, settings)
    # MultiKueue runs the job in another cluster and copies its status here.
    if job.deleting or job.policy.managed_by == MULTIKUEUE:
        return []
    if job.rejected:
        after = job_conditions.rejected(job, observed.pods, now)
        return _write_and_end(
            job, after, job_conditions.spec_event(job.status, job.rejected), observed, now
        )
    if job.policy.managed_by not in MANAGED_BY_MUSTER:
        return []
    before = job_conditions.current_status(job)
    if before.outcome is not None:
        return _clean_up(job, before, [], observed, now)
    return _guard_creations(job, _decide_active(job, before, observed, settings, now), observed)


def _guard_creations(job: Job, actions: list[Action], observed: Observed) -> list[Action]:
    """The actions, with writes about creations moved behind them and a check in front.

    The pods of a new job come before its status and events, which wait for the next reconcile: in a
    backlog, the pods of all jobs in the queue are created first. For a job that is not new the list
    begins with VerifyJob. Its objects are garbage-collected with it; if the watch of pods shows
    that before the watch of jobs shows the job's deletion, they only look lost.
    """
    if not any(isinstance(action, Create) for action in actions):
        return actions
    if job.status.condition("Created") or not observed.is_new:
        return [VerifyJob(), *actions]
    # The status must be written before the deletions that it counts.
    if any(isinstance(action, Delete) for action in actions):
        return actions
    later = (PatchStatus, EmitEvent, RecordExits)
    return [*(action for action in actions if not isinstance(action, later)), Requeue(0.0)]


def _decide_active(
    job: Job, before: JobStatus, observed: Observed, settings: Settings, now: datetime
) -> list[Action]:
    """The actions for a job that has not ended."""
    status, events = _accept(job, before, observed, settings, now)
    if job.policy.suspend:
        return _suspend(job, status, events, observed, now)
    if status.is_true("Suspended"):
        status = job_conditions.resumed(job, status, now)
        events.append(EmitEvent(f"{job.kind}Resumed", f"{job.kind} {job.name} is resumed."))
    wanted = framework_of(job).replicas(job, observed)
    present = {pod.metadata.name: pod for pod in (*observed.pods, *observed.orphans)}
    pods = [present[replica.name] for replica in wanted if replica.name in present]
    status, unclaimed = owned_objects.report_unclaimed(status, wanted, observed)
    assessment = assess(job, status, pods, wanted, now)
    exits = pod_failure.report_exits(job, pods, observed.reported_exits)
    events += [*unclaimed, *exits, *assessment.events]
    adopted = owned_objects.adopt_and_release(job, wanted, observed, settings)
    if assessment.status.outcome is not None:
        return [*adopted, *_write_and_end(job, assessment.status, events, observed, now)]
    rejection = job_conditions.rejection_of_pods(job, before, observed)
    started = _with_started(job, before, pods)
    if rejection and not job_conditions.keeps_running(started, observed.pods):
        after = job_conditions.failed_for_manifest(job, status, rejection, now)
        rejected = job_conditions.spec_event(before, rejection)
        return _write_and_end(job, after, rejected, observed, now)
    # From here on, status and pods are as they will be once the actions so far are carried out.
    status = _with_started(job, assessment.status, pods)
    if rejection and not job.invalid:
        status = job_conditions.with_invalid_condition(status, job.generation, rejection, now)
        events += job_conditions.spec_event(before, rejection)
    observed = _with_deletions(observed, assessment.replaced, now)
    updated = replace(job, status=status)
    # The new status may ask for other replicas: the next attempt of a launcher has another name.
    wanted = framework_of(job).replicas(updated, observed)
    surplus, observed_after = _surplus(updated, wanted, observed, settings, now)
    outdated = owned_objects.outdated_pods(updated, observed_after)
    observed_after = _with_deletions(observed_after, outdated, now)
    missing = owned_objects.without_pod(wanted, observed_after)
    delay = _delay(updated, wanted, missing, observed_after, settings, now)
    after, problems = explain(job, status, pods, observed, delay)
    removed = _event_of_removal(job, before, after, events, observed)
    return [
        *adopted,
        *_write(job, after, [*events, *problems, *removed]),
        *owned_objects.delete_pods((*assessment.replaced, *surplus)),
        # Before the gang's object has the new size: with it, the scheduler could start them.
        *owned_objects.delete_unstarted(outdated),
        *(() if job.from_pods else owned_objects.delete_unused_services(job, observed)),
        *(
            owned_objects.delete_pods(owned_objects.unscheduled_pods(observed_after))
            if rejection
            else owned_objects.adopt_leftovers(
                job,
                owned_objects.create_missing(updated, missing, observed_after, settings, now),
                observed,
            )
        ),
        *map(Requeue, (*assessment.waits, *restarts.seconds_to_deadlines(updated, status, now))),
    ]


def _accept(
    job: Job, before: JobStatus, observed: Observed, settings: Settings, now: datetime
) -> tuple[JobStatus, list[Report]]:
    """The status of a job that the operator manages, and the events when it first sees it."""
    status = replace(before, observed_generation=job.generation)
    if not job.policy.suspend and before.start_time is None:
        # Queueing systems such as Kueue read it as: the job was started.
        status = replace(status, start_time=now.replace(microsecond=0))
    if removal := pod_status.first_removal(observed.pods) or observed.removal:
        status = replace(status, preempted=removal)
    events: list[Report] = []
    if before.condition("Created") is None:
        message = f"{job.kind} {job.name} is created."
        reason = f"{job.kind}Created"
        status = job_conditions.with_condition(status, "Created", "True", reason, message, now)
        events += [EmitEvent(reason, message, "Warning") for reason, message in job.warnings]
    if before.observed_generation != job.generation and not job.invalid:
        # A server that preserves unknown fields does not warn of them.
        unknown = unknown_fields_of_spec(job.kind, job.spec)
        events += [EmitEvent("UnknownField", summary(unknown), "Warning")] if unknown else []
        events += gang.unserved(job, observed, settings)
    if job.invalid:
        status = job_conditions.with_invalid_condition(status, job.generation, job.invalid, now)
        events += job_conditions.spec_event(before, job.invalid)
    if before.condition("Created") is None:
        events += gang.warnings(job, observed, settings)
    return status, events


def _delay(
    job: Job,
    wanted: list[Replica],
    missing: list[Replica],
    observed: Observed,
    settings: Settings,
    now: datetime,
) -> Waiting | None:
    """Why missing pods are not created yet."""
    if quota := quota_turn.wait_for_quota(job, missing, observed, settings, now):
        return quota
    delay = restarts.waiting_for_backoff(job, job.status, missing, now)
    delay = delay or terminating_pods(wanted, observed)
    if delay is None and quota_turn.is_asking(job, missing, observed):
        return job.status.waiting
    return delay


def _event_of_removal(
    job: Job, before: JobStatus, after: JobStatus, events: Sequence[Report], observed: Observed
) -> list[EmitEvent]:
    """The event that replicas were taken away, unless the job restarts as a whole and says so."""
    reasons = [row.reason for row in events if isinstance(row, EmitEvent)]
    if not after.preempted or before.preempted or f"{job.kind}Restarting" in reasons:
        return []
    alike = sum(pod_status.removal(pod) == after.preempted for pod in observed.pods)
    subject = f"{alike} replicas were" if alike > 1 else "a replica was"
    return [EmitEvent("Interrupted", f"{subject} {after.preempted}", "Warning")]


def _with_started(job: Job, status: JobStatus, pods: list[Pod]) -> JobStatus:
    """The status, with a record that all replicas have started once."""
    started = sum(pod.status.phase not in ("", "Pending") for pod in pods)
    return replace(status, has_started=True) if started >= job.total > 0 else status


def _surplus(
    job: Job, wanted: list[Replica], observed: Observed, settings: Settings, now: datetime
) -> tuple[list[Pod], Observed]:
    """The pods that are no longer wanted, and the observed objects with those being deleted."""
    surplus = owned_objects.surplus_pods(job, wanted, observed)
    # Surplus pods are marked first, so that they have no say in the dialect of the gang.
    observed_after = _with_deletions(observed, surplus, now)
    surplus += owned_objects.pods_of_another_dialect(job, observed_after, settings)
    return surplus, _with_deletions(observed, surplus, now)


def _suspend(
    job: Job, status: JobStatus, events: list[Report], observed: Observed, now: datetime
) -> list[Action]:
    if not status.is_true("Suspended"):
        events.append(EmitEvent(f"{job.kind}Suspended", f"{job.kind} {job.name} is suspended."))
    status, _ = restarts.count_in_place(job, status, [])  # all its pods are deleted
    after = job_conditions.suspended(job, status, now).without_transient()
    groups = delete_group_objects(job, observed)
    return [
        *_write(job, after, [*events, *event_of_deletion(groups)]),
        *groups,
        *owned_objects.delete_pods(job_conditions.not_terminating(observed.pods)),
        *owned_objects.delete_services(owned_objects.service_names(observed)),
    ]


def _write(job: Job, after: JobStatus, events: Sequence[Report]) -> list[Action]:
    if job.has_phases and not after.is_rejected:
        after = job_conditions.with_phases(after)
    change = status_change(job.status, after)
    return [PatchStatus(change), *events] if change else []


def _write_and_end(
    job: Job, status: JobStatus, events: Sequence[Report], observed: Observed, now: datetime
) -> list[Action]:
    """Write the status and, if it says that the job has ended, clean up."""
    if status.outcome is None:
        return _write(job, status, events)
    after = job_end.final_counts(job, status, observed, now)
    return _clean_up(job, after, events, observed, now)


def _clean_up(
    job: Job, status: JobStatus, events: Sequence[Report], observed: Observed, now: datetime
) -> list[Action]:
    end = job_end.clean_up(job, status, observed, now)
    return [*_write(job, end.status, [*events, *end.events]), *end.actions]


def _with_deletions(observed: Observed, pods: Iterable[Pod], now: datetime) -> Observed:
    """The observed objects, with these pods marked for deletion."""
    uids = {pod.metadata.uid for pod in pods}
    return replace(observed, pods=with_deletions(observed.pods, uids, now))


def explain(
    job: Job, status: JobStatus, pods: Sequence[Pod], observed: Observed, delay: Waiting | None
) -> tuple[JobStatus, list[EmitEvent]]:
    """The status with the reason why pods wait, and an event if a problem is new.

    `delay` is the reason why the operator does not create some pods yet.
    """
    in_line = delay is not None and delay.reason == QUOTA_EXCEEDED
    if waiting := _before_creation(job, observed, delay if in_line else None):
        # A taken name may need a person, so it gets an event.
        is_new = waiting.reason == NAME_TAKEN and waiting != status.waiting
        return replace(status, waiting=waiting), [_warning(waiting)] if is_new else []
    if waiting := delay or _for_a_node(pods):
        return replace(status, waiting=waiting), []
    waiting = _on_a_node(pods)
    if waiting is None:
        return replace(status, waiting=None), []
    if status.waiting is not None and waiting.reason == status.waiting.reason:
        return status, []  # The message changes at every attempt without telling more.
    return replace(status, waiting=waiting), [_warning(waiting)]


def _warning(waiting: Waiting) -> EmitEvent:
    return EmitEvent(waiting.reason, waiting.message, "Warning")


def terminating_pods(wanted: Iterable[Replica], observed: Observed) -> Waiting | None:
    """The pods that must be gone before new pods can have their names."""
    names = {replica.name for replica in wanted}
    leaving = [pod for pod in observed.pods if pod.metadata.deletion_timestamp is not None]
    blocking = [pod for pod in leaving if pod.metadata.name in names]
    if not blocking:
        return None
    blocking.sort(key=lambda pod: pod.metadata.name)
    first, others = blocking[0].metadata, f" and {len(blocking) - 1} more" if blocking[1:] else ""
    cause = f" (it has finalizers: {', '.join(first.finalizers)})" if first.finalizers else ""
    text = f"waits for pod {first.name}{others} to end{cause}"
    silent = pod_status.unreachable_pods(blocking)
    return Waiting(
        TERMINATING, f"{text}; {pod_status.first_unreachable(silent)}" if silent else text
    )


def _before_creation(job: Job, observed: Observed, quota: Waiting | None) -> Waiting | None:
    """Why pods cannot be created."""
    if observed.of_former_job:
        count = len(observed.of_former_job)
        pods = f"{count} pod{'s' if count > 1 else ''}"
        return Waiting("FormerJob", f"waits for {pods} of the former job {job.name} to end")
    if not job.total:
        return Waiting("NoReplicas", "every role has 0 replicas: there is nothing to run")
    return quota or observed.blocked


def _for_a_node(pods: Sequence[Pod]) -> Waiting | None:
    for pod in pods:
        for row in pod.status.conditions:
            if row.type == "PodScheduled" and row.status == "False" and not pod.spec.node_name:
                place, in_line = place_on(pods)
                return Waiting(row.reason, row.message, place=place, in_line=in_line)
    return None


def _on_a_node(pods: Sequence[Pod]) -> Waiting | None:
    """A container that a node cannot start, or cannot start again."""
    for pod in pods:
        for row in pod.status.all_container_statuses:
            state = row.state.waiting
            if state is not None and state.reason not in _ORDINARY:
                reason = _SAME_PROBLEM.get(state.reason, state.reason)
                # How a crashing container ended tells more than when the node restarts it.
                crashes = reason == "CrashLoopBackOff"
                problem = f" {pod_status.failure(pod)}" if crashes else f": {state.message}"
                return Waiting(reason, f"Pod {pod.metadata.name}{problem}")
    return None
