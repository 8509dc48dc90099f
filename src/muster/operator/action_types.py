"""The writes that the operator can order for a job, as plain values.

A list of actions is carried out in its order. Neighbours of the same sort (creations of pods, say)
run at the same time; the next sort starts when all of them have ended. If an action fails, the rest
of the list is not carried out, and the job is reconciled again. The smallest Requeue counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kubekit.objects.events import EventText

if TYPE_CHECKING:
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw


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
