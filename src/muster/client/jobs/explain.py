"""Why a job waits and its place in line.

A job's pods are joined with the waiting line that the scheduler publishes in a ConfigMap. A user
who may not read it sees no places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.kinds import CONFIG_MAPS
from muster.api.meta import Key
from muster.client import ignore
from muster.client.jobs import lookup
from muster.errors import Forbidden
from muster.jobs.summary import instance
from muster.scheduler import waiting_line_format
from muster.scheduler.job_explanation import JobExplanation, explain_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.client import Notify
    from muster.kube.blocking_client import BlockingClient


def explain(
    client: BlockingClient, key: Key, type_: str = "", notify: Notify = ignore
) -> JobExplanation:
    """Why the job or the pod of that name does not run, and its place in line."""
    job_or_pod = lookup.get_job_or_pod(client, key, type_)
    last_lines: tuple[str, ...] = ()
    if isinstance(job_or_pod, Pod):
        pods, reason = [job_or_pod], instance(job_or_pod).reason
    else:
        pods = job_or_pod.pods(client)
        job = job_or_pod.summary(pods)
        reason, last_lines = job.headline, job.last_lines
    name = lookup.parse_name(key.name, type_).name
    explanation = explain_pods(client, name, pods, notify)
    reasons = {pod.metadata.name: instance(pod).reason for pod in pods}
    members = tuple(
        replace(member, why=member.why or reasons[member.name]) for member in explanation.members
    )
    # The waiting line says more about a gang in it than the reasons of single pods do.
    text = explanation.text if explanation.place else reason or explanation.text
    return replace(explanation, text=text, members=members, last_lines=last_lines)


def explain_pods(
    client: BlockingClient, name: str, pods: Sequence[Pod], notify: Notify = ignore
) -> JobExplanation:
    """The explanation of a job with these pods."""
    return explain_job(name, pods, _read_line(client, notify))


def _read_line(client: BlockingClient, notify: Notify) -> list[waiting_line_format.WaitingGang]:
    """The waiting line; empty if no gang waits or the user may not read it."""
    key = Key(waiting_line_format.NAMESPACE, waiting_line_format.CONFIG_MAP)
    try:
        config_map = client.find(CONFIG_MAPS, key)
    except Forbidden:
        notify(f"places in line are not shown: you may not read {key}")
        return []
    return waiting_line_format.read(config_map.data) if config_map else []
