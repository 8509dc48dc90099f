"""A gang as plain values: its key and terms, its group object, the marks on its pods.

The annotations are Muster's own; `gang_dialects.py` has the names that other schedulers use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubekit.objects.core import Pod, Resources
    from kubekit.objects.meta import Condition, Raw

GANG_IF_SCHEDULED = "auto"
"""The value of the job's annotation `muster.dev/gang` that `arena submit` writes without `--gang`:
a gang where Muster's scheduler runs, else pods for the cluster's own scheduler."""
HOLD_ANNOTATION = "muster.dev/hold"
"""On a group: how long room is held for a missing member."""
ON_HOLD_END_ANNOTATION = "muster.dev/on-hold-end"
"""On a group: `restart` deletes the remaining members when a hold ends, so that all restart."""
RESTART_ANNOTATION = "muster.dev/restart"
"""On a job and its group: `gang` if all members are recreated when one fails."""
RESTART_SCOPES = ("gang", "replica")
"""What restarts when a replica fails: all that train together, or it alone."""
PLACEMENT_ANNOTATION = "muster.dev/placement"
"""On a group or on its pods: `pack` or `spread`."""
TOPOLOGY_ANNOTATION = "muster.dev/topology"
"""On a group or on its pods: a node label. All members run on nodes with one value of it.

Several labels are separated by commas."""
MAX_TOPOLOGY_LABELS = 16
"""Labels that the annotation may name: the nodes are divided once for each."""
MAX_SHOWN = 60
"""Characters of an invalid label that a reason shows."""
PREFERRED_TOPOLOGY_ANNOTATION = "muster.dev/topology-preferred"
"""The same, if there is room: else the members run in several domains."""
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


class HyperNodeTiers(msgspec.Struct, frozen=True):
    """A gang within one of Volcano's HyperNodes: up to which tier, by number or by name."""

    required: bool
    highest: int | None = None
    highest_name: str = ""


class Topology(msgspec.Struct, frozen=True):
    """The domains that a gang must or should stay in. Labels are sorted from wide to narrow.

    One domain is one combination of the labels' values: a rack of one zone.
    """

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    tiers: HyperNodeTiers | None = None
    invalid: str = ""
    """Why the annotation that requires labels cannot be honoured: the gang waits."""

    @property
    def is_required(self) -> bool:
        """Whether the gang waits rather than run in several domains."""
        return bool(self.required) or (self.tiers is not None and self.tiers.required)


def topology_of(
    declared: Topology | None, group: Mapping[str, str], pods: Iterable[Pod]
) -> Topology | None:
    """The topology of a gang, by its dialect and by the annotations of its group or its pods."""
    required = group.get(TOPOLOGY_ANNOTATION, "")
    preferred = group.get(PREFERRED_TOPOLOGY_ANNOTATION, "")
    for pod in pods:
        marks = pod.metadata.annotations
        if TOPOLOGY_ANNOTATION in marks or PREFERRED_TOPOLOGY_ANNOTATION in marks:
            required = required or marks.get(TOPOLOGY_ANNOTATION, "")
            preferred = preferred or marks.get(PREFERRED_TOPOLOGY_ANNOTATION, "")
    if not required and not preferred:
        return declared
    base = declared or Topology()
    invalid = _problem_of(required)
    labels = dict.fromkeys((*base.required, *(_split(required) if not invalid else ())))
    # A preference that is not a label key is left out; the gang does not wait for it.
    wishes = [label for label in _split(preferred)[:MAX_TOPOLOGY_LABELS] if _is_label(label)]
    more = dict.fromkeys(wish for wish in (*base.preferred, *wishes) if wish not in labels)
    return Topology(tuple(labels), tuple(more), base.tiers, invalid)


def _split(text: str) -> tuple[str, ...]:
    """The node labels of an annotation, separated by commas."""
    return tuple(filter(None, (label.strip() for label in text.split(","))))


def _is_label(text: str) -> bool:
    # Commands that only name annotations start faster.
    from kubekit.objects.selectors import is_label_key

    return is_label_key(text)


def _problem_of(required: str) -> str:
    """Why an annotation does not name labels; empty if it does, or is empty."""
    labels = _split(required)
    if required and not labels:
        return "it names no label"
    if len(labels) > MAX_TOPOLOGY_LABELS:
        return f"it names {len(labels)} labels, {MAX_TOPOLOGY_LABELS} are allowed"
    wrong = next((label for label in labels if not _is_label(label)), "")
    shown = wrong if len(wrong) <= MAX_SHOWN else f"{wrong[:MAX_SHOWN]}…"
    return f"{shown!r} is not a label key" if wrong else ""


class GangTerms(msgspec.Struct, frozen=True):
    """The declared needs of a gang."""

    min: int = 1
    roles: Mapping[str, int] = {}
    priority_class: str = ""
    priority: int | None = None
    min_resources: Resources = {}
    topology: Topology | None = None
    may_preempt: bool = True
    """Whether the gang may evict pods of lower priority."""
    evicted_whole: bool = False
    """Whether no member may be evicted alone, not even one beyond the minimum."""
    unserved: str = ""
    """A required field that Muster does not serve; the gang waits rather than ignore it."""


class GroupSpec(msgspec.Struct, frozen=True):
    """The content of a new group object, in no dialect yet."""

    min: int
    roles: Mapping[str, int]
    resources: Raw
    selector: Raw
    priority_class: str = ""
    queue: str = ""
    timeout: int | None = None


class GroupCounts(msgspec.Struct, frozen=True):
    """The members of a gang by state, for the status of its group."""

    min: int
    bound: int
    pending: int
    running: int
    failed: int
    succeeded: int
    reason: str = ""
    """Why the gang waits; empty if it does not."""
    version: str = ""
    """The API version of the group object."""
    conditions: tuple[Condition, ...] = ()
    """The conditions in the status so far."""

    @property
    def scheduled(self) -> int:
        """Members that have, or had, a node."""
        return self.bound + self.succeeded

    @property
    def done(self) -> bool:
        return self.succeeded >= self.min


class PodMarks(msgspec.Struct, frozen=True):
    """Annotations, labels and spec fields by which a pod names its group."""

    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    spec: Mapping[str, Any] = {}
