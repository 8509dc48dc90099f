"""The input of one decision: the objects of one job.

`Informers.observe` fills it; tests may leave it empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from muster.jobs.job_status import Waiting  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from datetime import datetime

    from kubekit.objects.core import Pod, Service
    from kubekit.objects.meta import ObjectMeta, Raw


NAME_TAKEN = "ErrResourceExists"
"""The reason of a job that waits because an object of another owner has a name that it needs."""


class Observed(msgspec.Struct, frozen=True):
    pods: tuple[Pod, ...] = ()
    """Pods that the job controls."""
    orphans: tuple[Pod, ...] = ()
    """Pods with the job's labels and no controller."""
    released: tuple[Pod, ...] = ()
    """Pods that the job controls but that no longer carry its labels."""
    of_former_job: tuple[Pod, ...] = ()
    """Pods of an earlier job of this name that still exist."""
    services: tuple[Service, ...] = ()
    objects: Mapping[tuple[str, str], Raw] = {}
    """Other objects that the job owns, undecoded, by resource (`configmaps`) and name."""
    served_dialects: frozenset[str] = frozenset()
    """Resources of gang dialects that this cluster serves (`podgroups.scheduling.volcano.sh`)."""
    ports: frozenset[int] = frozenset()
    """Host ports that other pods use or that are reserved for them."""
    quota_refusal: str = ""
    """The message of the quota that refused the last pod."""
    blocked: Waiting | None = None
    """Why an object could not be created or changed at the last attempt."""
    template_rejection: str = ""
    """Why the API server rejected a pod of this generation."""
    leftovers: Mapping[tuple[str, str], ObjectMeta] = {}
    """Metadata of objects other than pods that carry the job's labels and have no controller, by
    resource and name: a former job of this name left them behind."""
    preemption: str = ""
    """By whom a pod was preempted since the status was last written."""
    reported_exits: frozenset[str] = frozenset()
    """The ends of containers that events have reported, as `exit_codes` names them."""
    is_new: bool = False
    """Whether this operator has not acted on the job before."""
    priorities: Mapping[str, int] = {}
    """Values of priority classes."""


def with_deletions(pods: Iterable[Pod], uids: Container[str], now: datetime) -> tuple[Pod, ...]:
    """The pods as they will be once the deletion of those with these UIDs is requested."""
    return tuple(
        replace(pod, metadata=replace(pod.metadata, deletion_timestamp=now))
        if pod.metadata.uid in uids and pod.metadata.deletion_timestamp is None
        else pod
        for pod in pods
    )
