"""A gang at the moment of a decision, and the actions that a decision asks for. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Key
    from muster.contract.gang import GangKey, GangTerms, Topology
    from muster.scheduler.cluster.volumes import VolumeChoice
    from muster.scheduler.decisions.reasons import Reader, Reason
    from muster.scheduler.gangs.gang_index import Gang
    from muster.scheduler.gangs.members import Members, Missing
    from muster.scheduler.gangs.phase import GangRecord, Phase
    from muster.scheduler.gangs.waiting_line import Rest
    from muster.scheduler.state import State


PREEMPTED, RELEASED = "Preempted", "Released"


@dataclass(frozen=True)
class Bind:
    """Bind each pod to its node, all of them now."""

    gang: GangKey
    plan: str
    pairs: tuple[tuple[Pod, str], ...]
    annotation: str
    """The plan mark that the pods get."""
    at: float = 0.0
    """When the plan was decided."""
    mends: bool = False
    """Whether the gang had running members and lacked others."""


@dataclass(frozen=True)
class Delete:
    """Delete bound pods, so that a gang can start again or another one can take the room."""

    gang: GangKey
    pods: tuple[Pod, ...]
    why: str
    reason: str
    """`Released` or `Preempted`: the event's reason."""
    whole: bool = True
    """Whether the whole gang is deleted, rather than some of its surplus."""
    since: datetime | None = None
    """When the deletion was decided, if that was before now."""
    preemptor: GangKey | None = None
    """The gang that gets the room, for the log: `why` may not name it."""


@dataclass(frozen=True)
class Report:
    """Write why a gang waits, or (None) that it does not, to its pods, its group and an event."""

    gang: GangKey
    reason: Reason | None


@dataclass(frozen=True)
class Provision:
    """Give waiting claims an existing volume, or the node where one is to be provisioned."""

    gang: GangKey
    claims: tuple[tuple[Key, VolumeChoice], ...]


Action = Bind | Delete | Report | Provision


@dataclass(frozen=True)
class Decision:
    """The actions about a gang, and its rest afterwards.

    `rest` has no default: a decision that forgets what will wake the gang is a type error. The
    phase is None if it stays as observed.
    """

    rest: Rest
    actions: tuple[Action, ...] = ()
    phase: Phase | None = None


@dataclass
class GangView:
    """One gang at the moment of a decision."""

    state: State
    gang: Gang
    key: GangKey
    record: GangRecord
    terms: GangTerms
    topology: Topology | None
    """The domains that the members must or should stay in."""
    annotations: Mapping[str, str]
    """The annotations of the object that declares the gang."""
    members: Members
    missing: Missing
    started: bool
    """Whether members addressed to us run, or are being bound."""
    now: float
    explained_at: float
    """When the numbers in the gang's reason were last computed."""
    reader: Reader
    """Who reads the reasons of this gang."""
    observed: bool = False
    """Whether the phase was observed: only then are the counts for the group's status right."""
