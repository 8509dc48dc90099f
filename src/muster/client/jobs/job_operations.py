"""Changing jobs: delete, suspend, resume, scale.

Every change names the UID of the job that was read, so that it never affects a new job of the same
name.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kubekit.client.request import PatchType
from kubekit.errors import MusterError
from kubekit.objects.kinds import CONFIG_MAPS, PODS, Kind
from kubekit.objects.meta import Key, Raw, object_name
from kubekit.request_errors import Conflict, Forbidden, NotFound
from muster.client.jobs import lookup
from muster.jobs.view.summary import JobSummary, summarize

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.client.blocking_client import BlockingClient
    from muster.client.jobs.lookup import FoundJob


def delete_job_or_pod(client: BlockingClient, key: Key, type_: str = "") -> None:
    """Delete a job, or the pod `pod/NAME`.

    A job owns its pods, services and records: they are deleted with it. A record that an
    interrupted submission left behind without its job is deleted too.
    """
    parsed = lookup.parse_name(key.name, type_)
    bare = Key(key.namespace, parsed.name)
    if parsed.must_be == "pod":
        client.delete(PODS, bare)
        return
    try:
        job = lookup.get_job(client, key, type_)
    except NotFound:
        if not _delete_records(client, bare, parsed.type):
            raise
    else:
        client.delete(job.kind, bare, uid=job.uid, propagation="Background")


def delete_found(client: BlockingClient, kind: Kind[Raw], key: Key, uid: str) -> None:
    """Delete the job of this UID and what it owns; fine if the job is gone already."""
    with suppress(NotFound, Conflict):  # Conflict: another job has its name
        client.delete(kind, key, uid=uid, propagation="Background")


def _delete_records(client: BlockingClient, job: Key, type_: str) -> int:
    """Delete the records of a job that does not exist, and count them."""
    count = 0
    for kind in lookup.kinds_of_type(type_):
        key = Key(job.namespace, f"{job.name}-{kind.kind.lower()}")
        try:
            record = client.get(CONFIG_MAPS, key)
        except (NotFound, Forbidden):
            continue
        # Another ConfigMap may have the same name by chance.
        if record.metadata.labels.get("createdBy") == "arena":
            client.delete(CONFIG_MAPS, key, uid=record.metadata.uid)
            count += 1
    return count


def ended_before(job: JobSummary, time: datetime) -> bool:
    """Whether the job has ended, not later than this time."""
    ended = job.finished or job.created
    return job.over and ended is not None and ended <= time


def set_suspended(client: BlockingClient, job: FoundJob, *, suspend: bool) -> str:
    """Suspend or resume a job; returns `suspended`, `already suspended` and so on."""
    _refuse_ended(job, ": there is nothing to " + ("stop" if suspend else "resume"))
    outcome = "suspended" if suspend else "resumed"
    spec = job.raw.get("spec") or {}
    policy = spec.get("runPolicy")
    if bool((policy or {}).get("suspend", spec.get("suspend"))) is suspend:
        return f"already {outcome}"
    # JSON patch cannot add a field to a mapping that does not exist.
    if isinstance(policy, dict):
        operation: Raw = {"op": "add", "path": "/spec/runPolicy/suspend", "value": suspend}
    else:
        operation = {"op": "add", "path": "/spec/runPolicy", "value": {"suspend": suspend}}
    _patch(client, job, [operation])
    return outcome


def scale(client: BlockingClient, job: FoundJob, counts: dict[str, int]) -> list[Raw]:
    """Give roles their new counts; returns the operations of the JSON patch."""
    from muster.jobs.build import scaling

    _refuse_ended(job, " and cannot be scaled")
    operations = scaling.operations(job.raw, counts)
    _patch(client, job, operations)
    return operations


def _refuse_ended(job: FoundJob, consequence: str) -> None:
    summary = summarize(job.raw, [])
    if summary.over:
        status = summary.status.lower()
        raise MusterError(f"{object_name(job.raw)} has {status} already{consequence}")


def _patch(client: BlockingClient, job: FoundJob, operations: list[Raw]) -> None:
    same: Raw = {"op": "test", "path": "/metadata/uid", "value": job.uid}
    client.patch(job.kind, job.key, [same, *operations], patch_type=PatchType.JSON)
