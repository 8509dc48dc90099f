"""The job behind a manifest that does not parse: as its pods show it, or its metadata alone.

No pod can be created from either. `job_from_pods` is for judging how the existing pods end;
`job_from_metadata` carries the policies by which a rejected job is cleaned up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.meta import Key, Raw
from muster.contract.job_fields import InvalidJob
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.jobs import names, parse, run_policy
from muster.jobs.field_reader import Section
from muster.jobs.job import Job, RunPolicy
from muster.jobs.job_status import decode_status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.core import Pod


def job_from_pods(raw: Raw, pods: Iterable[Pod]) -> Job:
    """The job with the roles, counts and restart policies of these pods, and its own policies.

    Raises InvalidJob if the pods do not add up to a job.
    """
    job_kind = JOB_KIND_BY_NAME[raw["kind"]]
    roles: dict[str, Raw] = {}
    for pod in pods:
        role = job_kind.role(pod.metadata.labels.get(names.ROLE, ""))
        index = names.replica_index(pod.metadata.labels)
        if role is None or index < 0:
            continue  # not a replica, whatever its labels say
        body = roles.get(role) or _replica(pod)
        roles[role] = {**body, "replicas": max(index + 1, body.get("replicas", 1))}
    job = parse.parse_job({**raw, "spec": {job_kind.replicas_field: roles}})
    return replace(job, policy=_policy(raw), from_pods=True)


def job_from_metadata(raw: Raw, rejected: str = "") -> Job:
    """The job's metadata, status and, if they parse, policies; `rejected` is the error."""
    meta, spec = raw.get("metadata") or {}, raw.get("spec")
    return Job(
        kind=str(raw.get("kind")),
        key=Key(str(meta.get("namespace") or ""), str(meta.get("name") or "")),
        uid=str(meta.get("uid") or ""),
        generation=int(meta.get("generation") or 0),
        deleting=bool(meta.get("deletionTimestamp")),
        policy=_policy(raw),
        status=decode_status(raw.get("status")),
        has_phases=isinstance(spec, dict) and "replicaSpecs" in spec,
        rejected=rejected,
    )


def _policy(raw: Raw) -> RunPolicy:
    try:
        spec = Section(raw.get("spec"), "spec")
        first_version = parse.is_first_version(str(raw.get("kind")), spec)
        return run_policy.read(spec, first_version=first_version)
    except InvalidJob:
        return RunPolicy()


def _replica(pod: Pod) -> Raw:
    # Parsing needs an image; nothing is ever created from this template.
    containers = [{"name": c.name, "image": c.image or "?"} for c in pod.spec.containers]
    return {
        "restartPolicy": pod.spec.restart_policy,
        "template": {"spec": {"containers": containers}},
    }
