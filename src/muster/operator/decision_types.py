"""What goes into a decision about one job, and what comes out of it.

`Observed` has the objects of the job; `Informers.observe` fills it, tests may leave it empty.
`Settings` has the operator's flags. The actions are the writes that the operator can order. A list
of them is carried out in its order. Neighbours of the same sort (creations of pods, say) run at the
same time; the next sort starts when all of them have ended. If an action fails, the rest of the
list is not carried out, and the job is reconciled again. The smallest Requeue counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from kubekit.objects.events import EventText
from muster.jobs.job_status import Waiting  # noqa: TC001 - msgspec reads it
from muster.jobs.quota_line import Standing  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from datetime import datetime

    from kubekit.objects.core import Pod, ResourceQuota, Service
    from kubekit.objects.kinds import Kind
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
    """The message of the quota that refused the last pod; empty once the job may ask again."""
    quota_line: tuple[Standing, ...] = ()
    """The other jobs of the namespace that wait for a quota, in order."""
    quotas: Mapping[str, ResourceQuota] = {}
    """The quotas of the namespace by name; none if the operator may not read them."""
    blocked: Waiting | None = None
    """Why an object could not be created or changed at the last attempt."""
    template_rejection: str = ""
    """Why the API server rejected a pod of this generation."""
    leftovers: Mapping[tuple[str, str], ObjectMeta] = {}
    """Metadata of objects other than pods that carry the job's labels and have no controller, by
    resource and name: a former job of this name left them behind."""
    removal: str = ""
    """By whom a pod was taken away since the status was last written, and why."""
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


class Settings(msgspec.Struct, frozen=True):
    gang: bool = True
    """Whether a job is a gang when its annotations do not say."""
    pod_scheduler: str = ""
    """The scheduler for pods outside of gangs that name none, where that is Muster's; empty: the
    cluster's own."""
    dialect: str = "auto"
    """The gang dialect of jobs that name none; `auto`: chosen by scheduler and installed CRDs."""
    scheduler: str = "muster"
    """The scheduler for pods of a gang that name none."""
    domain: str = ""
    """Appended to service names in TF_CONFIG and the like, e.g. `cluster.local`."""
    delivery_image: str = ""
    """An image that carries kubectl, for MPI images without Python."""
    address: str = ""
    """The address that all pods share, where pods do not have their own network."""
    restart: str = "replica"
    """What restarts when a replica of a job without the annotation `muster.dev/restart` fails:
    `replica`, or `gang` for jobs whose replicas die together."""
    init_image: str = ""
    """An image with a shell and nslookup, in which PyTorch workers wait for their master."""
    host_ports: range = range(0)
    """Ports for replicas on the host's network; empty: those of `build/host_ports.py`."""


@dataclass(frozen=True)
class VerifyJob:
    """Ask the API server whether the job itself still exists; carry out no more if it does not."""


@dataclass(frozen=True)
class Create:
    """Create an object that the job owns; the manifest has its name, labels and owner."""

    kind: Kind[Any]
    manifest: Raw
    generate: Literal["ssh-keys"] | None = None
    """Data to generate when the object is created. Decisions are pure, so they cannot do it."""

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True)
class Patch:
    """Merge a change into an object that the job owns, or adopts."""

    kind: Kind[Any]
    name: str
    change: Raw


@dataclass(frozen=True)
class Delete:
    """Delete an object; with a UID, only if the object of that name still has it."""

    kind: Kind[Any]
    name: str
    uid: str = ""
    version: str = ""
    """Delete it only if it has not changed since this resource version."""


@dataclass(frozen=True)
class PatchStatus:
    """Merge a change into the job's status."""

    change: Raw


class EmitEvent(EventText):
    """Emit an event on the job."""


@dataclass(frozen=True)
class RecordExits:
    """Remember the ends of containers that events have reported, so that none repeats them."""

    exits: frozenset[str]


@dataclass(frozen=True)
class DeleteJob:
    """Delete the job, whose TTL is over."""


@dataclass(frozen=True)
class Requeue:
    """Reconcile again after `seconds`, when no change of an object would cause it."""

    seconds: float


Report = EmitEvent | RecordExits
"""Actions that come with a change of the status, and are left out without one."""


Action = VerifyJob | Create | Patch | Delete | PatchStatus | Report | DeleteJob | Requeue
