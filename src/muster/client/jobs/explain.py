"""Why a job waits and its place in line.

Joins a job's pods with the line that the scheduler publishes. Where we may not read the line,
places are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.kinds import CONFIG_MAPS
from muster.api.meta import Key
from muster.client import ignore
from muster.client.jobs import lookup
from muster.errors import Forbidden, NotFound
from muster.jobs.summary import instance
from muster.scheduler import waiting_line_config_map
from muster.scheduler.job_explanation import JobExplanation, explain_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.client import Notify
    from muster.kube.blocking_client import BlockingClient


def explain(
    client: BlockingClient, key: Key, type_: str = "", notify: Notify = ignore
) -> JobExplanation:
    """Why the job or the pod of that name does not run, and its place in line."""
    found = lookup.get_job_or_pod(client, key, type_)
    if isinstance(found, Pod):
        pods, reason = [found], instance(found).reason
    else:
        pods = found.pods(client)
        reason = found.summary(pods).reason
    explanation = explain_pods(client, key.name, pods, notify)
    reasons = {pod.metadata.name: instance(pod).reason for pod in pods}
    members = tuple(replace(one, why=one.why or reasons[one.name]) for one in explanation.members)
    text = explanation.text if explanation.place else reason or explanation.text
    return replace(explanation, text=text, members=members)


def explain_pods(
    client: BlockingClient, name: str, pods: Sequence[Pod], notify: Notify = ignore
) -> JobExplanation:
    """The explanation of a job with these pods."""
    return explain_job(name, pods, _read_line(client, notify))


def _read_line(client: BlockingClient, notify: Notify) -> list[waiting_line_config_map.WaitingGang]:
    """The line; empty where no gang waits or we may not read it."""
    key = Key(waiting_line_config_map.NAMESPACE, waiting_line_config_map.CONFIG_MAP)
    try:
        return waiting_line_config_map.read(client.get(CONFIG_MAPS, key).data)
    except NotFound:
        return []
    except Forbidden:
        notify(f"places in line are not shown: you may not read {key}")
        return []
