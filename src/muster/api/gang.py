"""A gang as plain values: its key and terms, its group object, the marks on its pods.

The annotations are Muster's own; `gang_dialects.py` has the names that other schedulers use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.core import Resources
    from muster.api.meta import Raw

HOLD_ANNOTATION = "muster.dev/hold"
"""On a group: how long room is held for a missing member."""
ON_HOLD_END_ANNOTATION = "muster.dev/on-hold-end"
"""On a group: `restart` deletes the remaining members when a hold ends, so that all restart."""
RESTART_ANNOTATION = "muster.dev/restart"
"""On a group: `gang` if all members are recreated when one fails."""
PLACEMENT_ANNOTATION = "muster.dev/placement"
"""On a group or on its pods: `pack` or `spread`."""
PLAN_ANNOTATION = "muster.dev/plan"
"""On a bound pod: the plan it was bound by."""
LATE_ANNOTATION = "muster.dev/late"
"""On a group: members that start after the others and are not counted in its minimum, as JSON from
role to the requests of one member. Their room is placed with the gang and held."""
SUCCEEDED = "muster.dev/Succeeded"
"""The condition that counts succeeded members where a dialect's status has no field for them."""


class GangKey(NamedTuple):
    """Which gang: a name means nothing without the dialect that gave it."""

    dialect: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class GangTerms:
    """The declared needs of a gang."""

    min: int = 1
    roles: Mapping[str, int] = field(default_factory=dict)
    priority_class: str = ""
    priority: int | None = None
    min_resources: Resources = field(default_factory=dict)


@dataclass(frozen=True)
class GroupSpec:
    """The content of a new group object, in no dialect yet."""

    min: int
    roles: Mapping[str, int]
    resources: Raw
    selector: Raw
    priority_class: str = ""
    queue: str = ""
    timeout: int | None = None


@dataclass(frozen=True)
class GroupCounts:
    """The members of a gang by state, for the status of its group."""

    min: int
    bound: int
    pending: int
    running: int
    failed: int
    succeeded: int
    reason: str = ""
    """Why the gang waits; empty if it does not."""

    @property
    def scheduled(self) -> int:
        """Members that have, or had, a node."""
        return self.bound + self.succeeded

    @property
    def done(self) -> bool:
        return self.succeeded >= self.min


@dataclass(frozen=True)
class PodMarks:
    """Annotations, labels and spec fields by which a pod names its group."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
