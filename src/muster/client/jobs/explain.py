"""Why a job waits and its place in line.

A job's pods are joined with the waiting line that the scheduler publishes in a ConfigMap. A user
who may not read it sees no places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.core import Pod
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key, timestamp
from kubekit.request_errors import Forbidden
from muster.client import ignore
from muster.client.jobs import lookup
from muster.client.logs.last_lines import summary_with_last_lines
from muster.contract import waiting_line_format
from muster.contract.job_explanation import EMPTY, RUNS, WAITS, JobExplanation, explain_job
from muster.jobs.job_state import FAILED, RESTARTING, RUNNING, SUCCEEDED, SUSPENDED
from muster.jobs.view.instance import instance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.client.blocking_client import BlockingClient
    from muster.client import Notify
    from muster.jobs.view.instance import Instance
    from muster.jobs.view.summary import JobSummary


def explain(
    client: BlockingClient, key: Key, type_: str, now: datetime, notify: Notify = ignore
) -> JobExplanation:
    """Why the job or the pod of that name does not run, and its place in line."""
    job_or_pod = lookup.get_job_or_pod(client, key, type_)
    name = lookup.parse_name(key.name, type_).name
    if isinstance(job_or_pod, Pod):
        row = instance(job_or_pod)
        explanation = explain_pods(client, name, [job_or_pod], now, notify)
        return _with_reasons(explanation, row.reason, [row])
    pods = job_or_pod.pods(client)
    job = summary_with_last_lines(client, job_or_pod, pods, now)
    explanation = _with_job(explain_pods(client, name, pods, now, notify), job)
    explanation = _with_reasons(explanation, job.headline, job.instances)
    if explanation.place and job.preempted:
        explanation = replace(explanation, text=f"{job.preempted}; {explanation.text}")
    return replace(
        explanation,
        last_lines=job.last_lines,
        next_try=timestamp(job.next_try) if job.next_try else "",
    )


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


def explain_pods(
    client: BlockingClient, name: str, pods: Sequence[Pod], now: datetime, notify: Notify = ignore
) -> JobExplanation:
    """The explanation of a job with these pods."""
    return explain_job(name, pods, _read_line(client, notify), now)


def _read_line(client: BlockingClient, notify: Notify) -> list[waiting_line_format.WaitingGang]:
    """The waiting line; empty if no gang waits or the user may not read it."""
    key = Key(waiting_line_format.NAMESPACE, waiting_line_format.CONFIG_MAP)
    try:
        config_map = client.find(CONFIG_MAPS, key)
    except Forbidden:
        notify(f"places in line are not shown: you may not read {key}")
        return []
    return waiting_line_format.read(config_map.data) if config_map else []
