"""Why a job waits and its place in line.

A job's pods are joined with the waiting line that the scheduler publishes in a ConfigMap. Users who
may not read it get the place from a condition of the first pod that waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.core import Pod
from kubekit.objects.kinds import CONFIG_MAPS, PODS
from kubekit.objects.meta import Key, read_timestamp, timestamp
from kubekit.request_errors import Forbidden
from muster.client import ignore
from muster.client.jobs import lookup
from muster.client.logs.last_lines import summary_with_last_lines
from muster.contract import waiting_line_format
from muster.contract.gang_dialects import DIALECT_BY_NAME, gang_named_by
from muster.contract.job_explanation import EMPTY, RUNS, WAITS, JobExplanation, explain_job
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.scheduler_rights import NAMES
from muster.contract.unserved_fields import is_ours, of_gang, of_job, told_once
from muster.jobs import pod_status
from muster.jobs.job_state import FAILED, RESTARTING, RUNNING, SUCCEEDED, SUSPENDED
from muster.jobs.job_status import QUOTA_EXCEEDED
from muster.jobs.quota_line import place_of, standing
from muster.jobs.view.instance import instance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import HasMetadata
    from muster.client import Notify
    from muster.client.jobs.lookup import FoundJob
    from muster.contract.gang import GangKey
    from muster.jobs.job import SchedulingPolicy
    from muster.jobs.quota_line import Standing
    from muster.jobs.view.instance import Instance
    from muster.jobs.view.summary import JobSummary


def explain(
    client: BlockingClient, key: Key, type_: str, now: datetime, notify: Notify = ignore
) -> JobExplanation:
    """Why the job, the pod or the gang of that name does not run, and its place in line."""
    try:
        job_or_pod = lookup.get_job_or_pod(client, key, type_)
    except lookup.NoSuchJob:
        pods = [] if type_ or "/" in key.name else _pods_of_gang(client, key)
        if not pods:
            raise
        explanation = explain_pods(client, key.name, pods, now, notify)
        explanation = _with_not_served(client, explanation, pods, notify=notify)
        return _with_reasons(explanation, "", [instance(pod) for pod in pods])
    name = lookup.parse_name(key.name, type_).name
    if isinstance(job_or_pod, Pod):
        row = instance(job_or_pod)
        explanation = explain_pods(client, name, [job_or_pod], now, notify)
        explanation = _with_not_served(client, explanation, [job_or_pod], notify=notify)
        silent = job_or_pod.unreachable_since is not None
        reason = pod_status.unreachable(job_or_pod) if silent else row.reason
        return _with_reasons(explanation, reason, [row])
    pods = job_or_pod.pods(client)
    job = summary_with_last_lines(client, job_or_pod, pods, now)
    explanation = _with_job(explain_pods(client, name, pods, now, notify), job)
    explanation = _with_reasons(explanation, job.headline, job.instances)
    policy = job_or_pod.scheduling_policy
    explanation = _with_not_served(client, explanation, pods, policy, notify=notify)
    explanation = with_quota_place(client, explanation, job_or_pod, now, notify)
    if explanation.place and job.preempted:
        explanation = replace(explanation, text=f"{job.preempted}; {explanation.text}")
    return replace(
        explanation,
        last_lines=job.last_lines,
        hint=job.remedy,
        next_try=timestamp(job.next_try) if job.next_try else "",
    )


def _pods_of_gang(client: BlockingClient, key: Key) -> list[Pod]:
    """The pods of the namespace that name this gang: `doctor` and the line name gangs too."""
    try:
        pods = client.list(PODS, key.namespace, page=0).items
    except Forbidden:
        return []
    named = ((gang_named_by(pod), pod) for pod in pods)
    return [pod for gang, pod in named if gang is not None and gang.name == key.name]


def _with_job(explanation: JobExplanation, job: JobSummary) -> JobExplanation:
    """The explanation of the pods, with the state of their job, whose pods may not exist."""
    if job.status == SUCCEEDED:
        text = f"has ended: {job.counts}" if job.counts else "has ended"
        text = f"{text}. {job.reason}" if job.reason else text
        return replace(explanation, state=job.status.lower(), text=text)
    if job.status in (FAILED, SUSPENDED, RESTARTING):
        return replace(explanation, state=job.status.lower())
    if job.status == RUNNING:
        own = f"{explanation.text}; {job.reason}" if job.reason else explanation.text
        # The place in line is about the replicas that do not run yet.
        text = job.reason if explanation.place and job.reason else own
        return replace(explanation, state=RUNS, text=text)
    # `get` calls a job PENDING until all its replicas have started.
    state = WAITS if explanation.state in (EMPTY, RUNS) else explanation.state
    return replace(explanation, state=state)


def _with_reasons(
    explanation: JobExplanation, reason: str, rows: Sequence[Instance]
) -> JobExplanation:
    reasons = {row.name: row.reason for row in rows}
    members = tuple(
        replace(member, why=member.why or reasons[member.name]) for member in explanation.members
    )
    # The waiting line says more about a gang in it than the reasons of single pods do.
    keep = explanation.place or reason in explanation.text
    return replace(explanation, text=explanation.text if keep else reason, members=members)


def with_quota_place(
    client: BlockingClient,
    explanation: JobExplanation,
    job: FoundJob,
    now: datetime,
    notify: Notify = ignore,
) -> JobExplanation:
    """The explanation with the job's place in the line of a quota, if it stands in one."""
    if standing(job.kind.kind, job.raw) is None:
        return explanation
    try:
        line = _quota_line(client, job.key.namespace)
    except Forbidden as error:
        notify(f"places in line are not shown: {error}")
        return explanation
    place = place_of(line, job.uid)
    if place is None:
        return explanation
    return replace(
        explanation,
        place=place.place,
        in_line=place.of,
        quota=place.wait.name,
        since=timestamp(read_timestamp(place.wait.since) or now),
        priority=place.wait.priority,
        code=QUOTA_EXCEEDED,
    )


def _quota_line(client: BlockingClient, namespace: str) -> list[Standing]:
    """The jobs of a namespace that wait for its quotas, as far as the user may read jobs."""
    query = lookup.KindQuery(JOB_KINDS, lambda kind: client.list(kind, namespace, page=0).items)
    found = (standing(kind.kind, raw) for kind, items in query.results for raw in items)
    return sorted(row for row in found if row is not None)


def _with_not_served(
    client: BlockingClient,
    explanation: JobExplanation,
    pods: Sequence[Pod],
    policy: SchedulingPolicy | None = None,
    *,
    notify: Notify,
) -> JobExplanation:
    """The explanation with the fields that have no effect, if Muster's scheduler has the pods."""
    if not pods or not (explanation.place or any(map(is_ours, pods))):
        return explanation
    gang = gang_named_by(pods[0])
    dialect = gang.dialect if gang is not None else "none"
    names = {pod.spec.scheduler_name for pod in pods} if not explanation.place else NAMES
    found = of_job(policy.for_scheduler, dialect, names) if policy is not None else []
    group = _read_group(client, gang, notify) if gang is not None else None
    found = told_once([*found, *of_gang(dialect, group, pods)])
    return replace(explanation, not_served=tuple(map(str, found)))


def _read_group(client: BlockingClient, gang: GangKey, notify: Notify) -> HasMetadata | None:
    """The object that declares the gang; None if there is none or the user may not read it."""
    key = Key(gang.namespace, gang.name)
    for kind in DIALECT_BY_NAME[gang.dialect].kinds:
        try:
            group: HasMetadata | None = client.find(kind, key)
        except Forbidden:
            notify(f"fields of the group are not checked: you may not read {kind.plural} {key}")
            return None
        if group is not None:
            return group
    return None


def explain_pods(
    client: BlockingClient, name: str, pods: Sequence[Pod], now: datetime, notify: Notify = ignore
) -> JobExplanation:
    """The explanation of a job with these pods."""
    key = Key(waiting_line_format.NAMESPACE, waiting_line_format.CONFIG_MAP)
    try:
        config_map = client.find(CONFIG_MAPS, key)
    except Forbidden:
        explanation = explain_job(name, pods, None, now)
        if not explanation.place:
            notify(f"places in line are not shown: you may not read {key}")
        return explanation
    rows = waiting_line_format.read(config_map.data) if config_map else []
    return explain_job(name, pods, rows, now)
