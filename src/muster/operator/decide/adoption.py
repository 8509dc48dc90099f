"""Adopting objects with the job's labels and no controller; releasing pods without its labels.

A job adopts an object only if it has the name of an object that the job needs. It reports other
pods with its labels and leaves them alone. Of an object's owner references, only the reference
to the job changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.kinds import PODS
from muster.operator.action_types import Action, Create, EmitEvent, Patch
from muster.operator.build.gang import gang_of
from muster.operator.build.labels import owner_reference, owner_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import ObjectMeta, Raw
    from muster.jobs.job import Job, Replica
    from muster.jobs.job_status import JobStatus
    from muster.operator.observed_job import Observed
    from muster.operator.settings import Settings

_MAX_REPORTED = 8


def adopt_and_release(
    job: Job, wanted: Sequence[Replica], observed: Observed, settings: Settings
) -> list[Action]:
    """Adopt orphans with the name of a wanted replica, and release pods without the labels.

    An adopted pod also gets the marks of the gang, so that the scheduler counts it as a member.
    """
    replicas = {replica.name: replica for replica in wanted}
    orphans = [pod for pod in observed.orphans if pod.metadata.name in replicas]
    actions: list[Action] = [_with_owners(pod, _others(job, pod)) for pod in observed.released]
    if not orphans:
        return actions
    gang = gang_of(job, observed, settings)
    for pod in orphans:
        own = gang.marks(replicas[pod.metadata.name])
        marks = {"labels": {**own.labels}, "annotations": {**own.annotations}}
        owners = [*_others(job, pod), owner_reference(job)]
        actions.append(_with_owners(pod, owners, {name: row for name, row in marks.items() if row}))
    return actions


def adopt_leftovers(job: Job, actions: list[Action], observed: Observed) -> list[Action]:
    """Adopt objects that a former job of this name left behind, instead of creating them."""
    if not observed.leftovers:
        return actions
    return [
        _adopt(job, action, observed.leftovers[action.kind.resource, action.name])
        if isinstance(action, Create) and (action.kind.resource, action.name) in observed.leftovers
        else action
        for action in actions
    ]


def report_unclaimed(
    status: JobStatus, wanted: Sequence[Replica], observed: Observed
) -> tuple[JobStatus, list[EmitEvent]]:
    """The status with pods that carry the job's labels but are not its replicas.

    Returns an event as well if these pods have changed.
    """
    names = {replica.name for replica in wanted}
    orphans = (pod.metadata.name for pod in observed.orphans)
    others = tuple(sorted(name for name in orphans if name not in names)[:_MAX_REPORTED])
    if others == status.unclaimed_pods:
        return status, []
    status = replace(status, unclaimed_pods=others)
    if not others:
        return status, []
    pods, carry = ("pod", "carries") if len(others) == 1 else ("pods", "carry")
    predicate = "is not one of its replicas" if len(others) == 1 else "are not its replicas"
    message = f"{pods} {', '.join(others)} {carry} this job's labels but {predicate}; ignored"
    return status, [EmitEvent("UnclaimedPods", message, "Warning")]


def _adopt(job: Job, action: Create, metadata: ObjectMeta) -> Patch:
    owners = [*owner_rows(metadata), owner_reference(job)]
    # A UID in a patch is a precondition: the server refuses it for a successor of the same name.
    change = {"metadata": {"uid": metadata.uid, "ownerReferences": owners}}
    return Patch(action.kind, action.name, change)


def _others(job: Job, pod: Pod) -> list[Raw]:
    return [row for row in owner_rows(pod.metadata) if row["uid"] != job.uid]


def _with_owners(pod: Pod, owners: list[Raw], marks: Raw | None = None) -> Action:
    meta = {"uid": pod.metadata.uid, "ownerReferences": owners, **(marks or {})}
    if pod.metadata.resource_version:
        # A merge patch replaces the whole list: it must fail if another client changed it.
        meta["resourceVersion"] = pod.metadata.resource_version
    return Patch(PODS, pod.metadata.name, {"metadata": meta})
