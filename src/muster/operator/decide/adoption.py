"""Pods that change hands: those with the job's labels and no controller, and those that lost them.

Pure. Called by `decide`. Only the job's own entry among a pod's owners is touched, and only a pod
that stands where the job wants one is taken: a second one is somebody's, and is only told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from muster.api.kinds import PODS
from muster.operator.actions import Action, EmitEvent, Patch
from muster.operator.build import gang, labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.observed import Observed
    from muster.operator.settings import Settings

FIELD = "unclaimed"
_MOST = 8
"""Names of pods that are told of."""


def adopt_and_release(
    job: Job, wanted: Sequence[Replica], observed: Observed, settings: Settings
) -> list[Action]:
    """Pods that belong to nobody become the job's, marked as of its gang; strays are let go."""
    members = {replica.name: replica for replica in wanted}
    found = [pod for pod in observed.orphans if pod.metadata.name in members]
    group = gang.gang_of(job, observed, settings) if found else None
    actions: list[Action] = [_owned(pod, _others(job, pod)) for pod in observed.released]
    for pod in found:
        replica = members[pod.metadata.name]
        more = (
            {"labels": group.labels(replica), "annotations": group.annotations(replica)}
            if group
            else {}
        )
        owners = [*_others(job, pod), labels.owner_reference(job)]
        actions.append(_owned(pod, owners, {name: rows for name, rows in more.items() if rows}))
    return actions


def report_unclaimed(
    current: Raw, wanted: Sequence[Replica], observed: Observed
) -> tuple[Raw, list[EmitEvent]]:
    """The status with the pods that only pass for the job's, and an event when those change."""
    names = {replica.name for replica in wanted}
    others = sorted(p.metadata.name for p in observed.orphans if p.metadata.name not in names)[
        :_MOST
    ]
    if others == (current.get(FIELD) or []):
        return current, []
    rest = {name: value for name, value in current.items() if name != FIELD}
    if not others:
        return rest, []
    message = f"{', '.join(others)}: labelled as of this job, but not made for it; left alone"
    return {**rest, FIELD: others}, [EmitEvent("UnclaimedPods", message, "Warning")]


def _others(job: Job, pod: Pod) -> list[Raw]:
    rows: list[Raw] = [msgspec.to_builtins(row) for row in pod.metadata.owner_references]
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in rows
        if row["uid"] != job.uid
    ]


def _owned(pod: Pod, owners: list[Raw], more: Raw | None = None) -> Action:
    meta = {"uid": pod.metadata.uid, "ownerReferences": owners, **(more or {})}
    if pod.metadata.resource_version:
        # The list is written whole: not over one that somebody has changed meanwhile.
        meta["resourceVersion"] = pod.metadata.resource_version
    return Patch(PODS, pod.metadata.name, {"metadata": meta})
