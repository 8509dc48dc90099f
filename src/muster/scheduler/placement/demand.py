"""The question and the answers of one trial: a demand, a plan, or the shortage. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muster.scheduler.cluster.snapshot import NO_CHANGES, RoomChanges
from muster.scheduler.settings import Weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.objects.core import Pod
    from muster.contract.gang import Topology
    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.cluster.snapshot import Placement, Slot


@dataclass(frozen=True)
class ClassDemand:
    """Pods of one class and role that are to be placed; `pods` in the order they get nodes."""

    cls: PodClass
    role: str
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class NodePreference:
    """How to choose among feasible nodes; `rack` is a node label, empty if racks do not count."""

    weights: Weights = field(default_factory=Weights)
    rack: str = ""
    spread: bool = False


@dataclass(frozen=True)
class DomainDemand:
    """The domains that the pods must or should get.

    `members` are the nodes of the gang's other members: the pods join their domain. `held` are
    nodes with room held for the gang: their domain is preferred.
    """

    topology: Topology
    members: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demand:
    """The pods that one trial is to place for one gang.

    `need` of the wanted pods must be placed, among them `roles[role]` of each role named; the rest
    is surplus and not placed here. `holds` are slots removed during the trial, whose nodes are
    preferred: the gang's own holds, or victims. `used_nodes` already run members. `reserved` rows
    are closed to the gang. `domain` is None for a gang that may use every domain. `room` is what
    the decision has changed before the trial, and what is kept for a gang that goes first.
    """

    wants: tuple[ClassDemand, ...]
    need: int
    roles: Mapping[str, int] = field(default_factory=dict)
    holds: tuple[Slot, ...] = ()
    used_nodes: tuple[str, ...] = ()
    reserved: Mask | None = None
    preference: NodePreference = field(default_factory=NodePreference)
    domain: DomainDemand | None = None
    room: RoomChanges = NO_CHANGES


@dataclass(frozen=True)
class Plan:
    """The node of each pod."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True)
class ClassShortage:
    """A class that did not fit: how many pods were wanted, and how many fit alone.

    `lacks` is what the rest lacks on all feasible nodes together, `removed` how many nodes each
    filter removed, `ever` whether any node would fit a pod if it were empty, and `largest` the
    resources of which even the largest node has too little, with the amount it has. `capacity` is
    what the feasible nodes have of resources of which they had too little even if all were empty.
    `most` is how many pods would fit if all nodes were empty, if these are too few.
    """

    want: ClassDemand
    wanted: int
    fits: int
    lacks: Mapping[str, int] = field(default_factory=dict)
    removed: tuple[tuple[str, int], ...] = ()
    ever: bool = True
    largest: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    most: int | None = None


@dataclass(frozen=True)
class DomainShortage:
    """Why no single domain holds a gang.

    `best` is the domain with room for the most members, empty without any domain; the
    classes that are short are short there. `members_in` are the domains of members that have a
    node; `None` stands for nodes that are gone or in no domain. `largest` is the domain that would
    hold the most members if all nodes were empty, and how many, if these are too few.
    `missing_labels` are the required labels that no node has, each with the most similar label of a
    node, empty if none is similar; `missing_tier` is the same for a tierName of HyperNodes.
    """

    topology: Topology
    best: str = ""
    members_in: tuple[str | None, ...] = ()
    largest: tuple[str, int] | None = None
    missing_labels: tuple[tuple[str, str], ...] = ()
    missing_tier: tuple[str, str] | None = None


@dataclass(frozen=True)
class Unplaced:
    """Why a gang cannot be placed: the classes that are short, in the order they were tried."""

    short: tuple[ClassShortage, ...]
    alone: bool = True
    """Whether a class fails alone; if not, each fits alone and only all together do not."""
    domain: DomainShortage | None = None
    """Set if the gang needs one domain."""
    beyond: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """If each class fits alone: resources of which all classes together request more than all nodes
    have, with both amounts."""
