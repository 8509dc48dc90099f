"""The question and the answers of one trial: a demand, a plan, or what was short. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muster.scheduler.settings import Weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.core import Pod
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
    """How to choose among nodes that would do; `rack` is a label, and empty where there is none."""

    weights: Weights = field(default_factory=Weights)
    rack: str = ""
    spread: bool = False


@dataclass(frozen=True)
class Demand:
    """What one gang asks of one trial.

    `need` of the wanted pods must be placed, among them `roles[role]` of each role named; the rest
    is surplus and not placed here. `holds` are this gang's own holds: removed during its trial, and
    their nodes preferred. `used_nodes` already run members. `reserved` rows are closed to it.
    """

    wants: tuple[ClassDemand, ...]
    need: int
    roles: Mapping[str, int] = field(default_factory=dict)
    holds: tuple[Slot, ...] = ()
    used_nodes: tuple[str, ...] = ()
    reserved: Mask | None = None
    preference: NodePreference = field(default_factory=NodePreference)


@dataclass(frozen=True)
class Plan:
    """Pod by pod, the node it gets."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True)
class ClassShortage:
    """A class that did not fit: how many were wanted, how many would fit by themselves, and then:

    what the rest lacks over all nodes it may go to, how many nodes each filter removed, whether
    any node would fit it if it were empty, and of which resource even the largest node has too
    little (and how much).
    """

    want: ClassDemand
    wanted: int
    fits: int
    lacks: Mapping[str, int] = field(default_factory=dict)
    removed: tuple[tuple[str, int], ...] = ()
    ever: bool = True
    largest: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Unplaced:
    """Why a gang cannot be placed: the classes that are short, in the order they were tried."""

    short: tuple[ClassShortage, ...]
    alone: bool = True
    """Whether a class fails by itself; if not, each fits alone and only all together do not."""
