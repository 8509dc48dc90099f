"""One pod of a job -> the view of a person: a row of `arena get`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.status_column import status_column
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.jobs import names
from muster.jobs.job_state import Crash, crash_of, replica_index, why_not_running

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Key


class Instance(msgspec.Struct, frozen=True):
    """One pod of a job."""

    name: str
    role: str
    index: int
    status: str
    """kubectl's STATUS column."""
    phase: str
    chief: bool
    gpus: int
    node: str
    """Empty while the pod is not scheduled."""
    node_ip: str
    ip: str
    created: datetime | None
    restarts: int
    """Also those of earlier pods of the replica."""
    reason: str
    """Why it does not run, or how it crashed before, in a sentence; else empty."""
    crash: Crash | None = None
    """The crash after which the node starts it again."""
    unreachable: bool = False
    """Whether its node does not answer."""
    replaced: bool = False
    """Whether it is an MPI launcher that failed and stays for its log beside the next one."""

    @property
    def state(self) -> str:
        """Its phase, or that it waits for its next try, or that its node does not answer."""
        if self.unreachable:
            return "unreachable"
        return "restarting" if self.crash is not None and self.crash.waits else self.phase.lower()


def instance(
    pod: Pod, *, leads: bool = False, restarts: int | None = None, replaced: bool = False
) -> Instance:
    """One pod, as a person sees it; `restarts` are those of its replica, if they are known."""
    labels = pod.metadata.labels
    if restarts is None:
        restarts = sum(row.restart_count for row in pod.status.all_container_statuses)
    crash = crash_of(pod)
    silent = pod.unreachable_since is not None
    if silent:
        reason = f"node {pod.spec.node_name} does not answer"
    elif crash is not None:
        reason = crash.rest_of_sentence
    else:
        reason = "" if pod.status.phase in ("Running", "Succeeded") else why_not_running(pod)
    return Instance(
        name=pod.metadata.name,
        role=labels.get(names.ROLE, ""),
        index=replica_index(pod),
        status=status_column(pod),
        phase=pod.status.phase or "Pending",
        chief=leads,
        gpus=gpus(pod),
        node=pod.spec.node_name,
        node_ip=pod.status.host_ip,
        ip=pod.status.pod_ip,
        created=pod.metadata.creation_timestamp,
        restarts=restarts,
        reason=reason,
        crash=crash,
        unreachable=silent,
        replaced=replaced,
    )


def gpus(pod: Pod) -> int:
    """GPUs that the pod requests."""
    return gpus_of_limits(container.resources.limits for container in pod.spec.containers)


def pods_of_job(kind: str, key: Key, uid: str, pods: Iterable[Pod]) -> list[Pod]:
    """The pods that the job owns; pods of an older operator have no owner, only its labels."""
    job_kind = JOB_KIND_BY_NAME.get(kind)
    selector = names.selector(job_kind.operator, key.name) if job_kind else {}
    return [pod for pod in pods if _belongs(pod, key, uid, selector)]


def _belongs(pod: Pod, key: Key, uid: str, selector: dict[str, str]) -> bool:
    if pod.metadata.namespace != key.namespace:
        return False
    owner = pod.metadata.controller
    if owner is not None and uid:
        return owner.uid == uid
    labels = pod.metadata.labels
    return bool(selector) and selector.items() <= labels.items()


def order(pod: Pod) -> tuple[str, int, str]:
    """The order of a job's pods: by role, then by index."""
    labels = pod.metadata.labels
    return labels.get(names.ROLE, ""), replica_index(pod), pod.metadata.name


def gpus_of_limits(limits: Iterable[Mapping[str, Any]]) -> int:
    """GPUs in the limits of containers."""
    amounts = (row[name] for row in limits if row for name in names.GPU_RESOURCES if name in row)
    return sum(read_integer(str(amount)) or 0 for amount in amounts if not isinstance(amount, bool))
