"""A job as its pods show it, for when its manifest makes no sense and nobody remembers the former.

Called by the operator. It is good for telling how the job's pods end, and not for making any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.jobs import names, parse
from muster.jobs.job_kinds import JOB_KIND_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job


def job_from_pods(raw: Raw, pods: Iterable[Pod]) -> Job:
    """The job with the roles, numbers and restart policies of these pods, and its own policies.

    Raises InvalidJob if they make no job.
    """
    job_kind = JOB_KIND_BY_NAME[raw["kind"]]
    roles: dict[str, Raw] = {}
    for pod in pods:
        role = job_kind.role(pod.metadata.labels.get(names.ROLE, ""))
        index = pod.metadata.labels.get(names.INDEX, "")
        if role is None or not (index.isascii() and index.isdecimal()):
            continue
        known = roles.get(role) or _replica(pod)
        roles[role] = {**known, "replicas": max(int(index) + 1, known.get("replicas", 1))}
    job = parse.parse_job({**raw, "spec": {job_kind.replicas_field: roles}})
    return replace(job, policy=parse.job_from_metadata(raw).policy, from_pods=True)


def _replica(pod: Pod) -> Raw:
    containers = [{"name": one.name, "image": one.image or "?"} for one in pod.spec.containers]
    return {
        "restartPolicy": pod.spec.restart_policy,
        "template": {"spec": {"containers": containers}},
    }
