"""The event ExitedWithCode: every end of a container that trains, in training-operator's words.

training-operator reports an end at every reconcile that sees it. Here each end is reported once:
the operator remembers the reported ends of the pods that exist. An operator that was restarted
reports them once more, with the next change of the job's status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.operator.action_types import EmitEvent, RecordExits, Report
from muster.operator.build.labels import replica_spec_of
from muster.operator.decide.job_conditions import not_terminating

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job

_MAX_EVENTS = 8
"""If more pods than this end with the same code at once, they share an event."""


def report_exits(job: Job, pods: Sequence[Pod], reported: frozenset[str]) -> list[Report]:
    """The events about ends that are not reported yet, and the record of all ends."""
    ends = {row[0]: (pod, row[1]) for pod in not_terminating(pods) if (row := _last_end(job, pod))}
    names: dict[int, list[str]] = {}
    for key, (pod, code) in ends.items():
        if key not in reported:
            names.setdefault(code, []).append(f"{pod.metadata.namespace}.{pod.metadata.name}")
    if not names:
        return []
    events = [event for code, rows in names.items() for event in _events(rows, code)]
    return [*events, RecordExits(frozenset(ends))]


def _events(names: Sequence[str], code: int) -> list[EmitEvent]:
    if len(names) <= _MAX_EVENTS:
        return [_event(f"Pod: {name}", code) for name in names]
    listed = f"{', '.join(names[:_MAX_EVENTS])} and {len(names) - _MAX_EVENTS} more"
    return [_event(f"Pods: {listed}", code)]


def _event(subject: str, code: int) -> EmitEvent:
    return EmitEvent("ExitedWithCode", f"{subject} exited with code {code}")


def _last_end(job: Job, pod: Pod) -> tuple[str, int] | None:
    """The last end of the pod's container that trains: which end it is, and the exit code."""
    replica_spec = replica_spec_of(job, pod)
    rows = pod.status.container_statuses
    row = next((r for r in rows if replica_spec and r.name == replica_spec.container), None)
    end = (row.state.terminated or row.last_state.terminated) if row else None
    if row is None or end is None:
        return None
    # A container that runs again is one attempt further.
    further = row.state.terminated is None and not row.waits_for_restart
    return f"{pod.metadata.uid}/{row.restart_count - further}", end.exit_code
