"""What the operator can do about a job, as plain values.

`decide` makes them, in the order in which they must happen; `act` carries them out; tests and
`--dry-run` look at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.api.events import EventText

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw


@dataclass(frozen=True)
class Create:
    """Create an object of the job's own; the manifest carries name, labels and owner."""

    kind: Kind[Any]
    manifest: Raw

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True)
class Patch:
    """Merge a change into an object of the job's own."""

    kind: Kind[Any]
    name: str
    change: Raw


@dataclass(frozen=True)
class Delete:
    """Delete an object; with a UID, only that very one and not a successor of its name."""

    kind: Kind[Any]
    name: str
    uid: str = ""


@dataclass(frozen=True)
class PatchStatus:
    """Merge a change into the job's status."""

    change: Raw


class EmitEvent(EventText):
    """Tell people, by an event on the job."""


@dataclass(frozen=True)
class DeleteJob:
    """The job has outlived its time."""


@dataclass(frozen=True)
class Requeue:
    """Look again in so many seconds: nothing else will call us then."""

    seconds: float


Action = Create | Patch | Delete | PatchStatus | EmitEvent | DeleteJob | Requeue
