"""What a decision asks of the world: bind these, delete those, say this.

Made by `decide`, carried out by the loop. Plain data, so that a test can compare whole decisions.

One gang as it stands now, for the length of one decision; and what is said of it.

Made by `decide`, used by `rooms` and `remedy`.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import xor
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.gang_dialects import GangKey, GangTerms
    from muster.api.meta import Key
    from muster.scheduler.cluster.volumes import VolumeChoice
    from muster.scheduler.decisions.reasons import Reason
    from muster.scheduler.gangs.holds import Missing
    from muster.scheduler.gangs.line import Spot
    from muster.scheduler.gangs.phase import GangRecord
    from muster.scheduler.gangs.roster import Gang, Members
    from muster.scheduler.state import State


PLAN_ANNOTATION = "muster.dev/plan"
MAX_NAMED_PODS = 64
"""Members that a plan's mark names one by one: the last, which a plan that is cut short lacks."""
PREEMPTED, RELEASED = "Preempted", "Released"


@dataclass(frozen=True)
class Bind:
    """Give each pod its node, all of them now.

    `size` members make the gang whole, 0 if it has been that already. It stands in the mark that
    the pods get, with how many they are and marks of who: after a restart that tells a gang whose
    binds were cut short from one that lost a member, or that suffered both.
    """

    gang: GangKey
    plan: str
    pairs: tuple[tuple[Pod, str], ...]
    size: int
    at: float = 0.0
    """When it was decided."""
    mends: bool = False
    """Whether the gang had members running and lacked others."""

    @cached_property
    def annotation(self) -> str:
        """What the pods of this plan are marked with."""
        if not self.size:
            return f"{self.plan}/0"
        uids = [pod.metadata.uid for pod, _ in self.pairs]
        last = "".join(f"{fingerprint([uid]):08x}" for uid in uids[-MAX_NAMED_PODS:])
        return f"{self.plan}/{self.size}+{len(uids)}-{fingerprint(uids):08x}-{last}"


class PlanMark(NamedTuple):
    """What a pod's mark says of its plan."""

    size: int = 0
    pods: int = 0
    who: int = 0
    last: frozenset[int] = frozenset()


def read_plan_mark(annotation: str) -> PlanMark:
    found = re.fullmatch(r".*/(\d+)\+(\d+)-([0-9a-f]{8})-?((?:[0-9a-f]{8})*)", annotation)
    if found is None:
        return PlanMark()
    last = frozenset(int(one, 16) for one in re.findall(".{8}", found[4]))
    return PlanMark(int(found[1]), int(found[2]), int(found[3], 16), last)


def fingerprint(uids: Iterable[str]) -> int:
    """A number for a set of pods; that of two sets together is the exclusive or of theirs."""
    return reduce(xor, (zlib.crc32(uid.encode()) for uid in uids), 0)


@dataclass(frozen=True)
class Delete:
    """Delete pods that have a node, so that a gang can start again or another can take the room."""

    gang: GangKey
    pods: tuple[Pod, ...]
    why: str
    reason: str
    """`Released` or `Preempted`: the event's reason."""
    whole: bool = True
    """Whether all of the gang goes that can, rather than what it has to spare."""
    since: datetime | None = None
    """When it was decided, if that was before now."""


@dataclass(frozen=True)
class Report:
    """Tell a gang's pods, group object and reader why it waits, or (None) that it does not."""

    gang: GangKey
    reason: Reason | None


@dataclass(frozen=True)
class Provision:
    """Tell claims the node of the pod that they wait for, or give them a volume that exists."""

    gang: GangKey
    claims: tuple[tuple[Key, VolumeChoice], ...]


Action = Bind | Delete | Report | Provision


@dataclass
class GangView:
    """A gang, its members, its terms and what it lacks."""

    state: State
    gang: Gang
    record: GangRecord
    terms: GangTerms
    members: Members
    missing: Missing
    now: float

    @property
    def key(self) -> GangKey:
        return self.gang.key

    @property
    def started(self) -> bool:
        """Whether members of ours are running, or on their way."""
        names = self.state.roster.names
        return any(pod.spec.scheduler_name in names for pod in self.members.bound)

    @property
    def annotations(self) -> dict[str, str]:
        """What the gang's own object is annotated with."""
        return self.gang.declared.metadata.annotations if self.gang.declared is not None else {}


def wait(view: GangView, reason: Reason | None, spot: Spot) -> list[Action]:
    """Park the gang until something helps it, and say why it waits."""
    if view.record.waits_since is None and reason is not None:
        view.record.waits_since = view.now
    view.state.parked.park(view.key, spot)
    return say(view.state, view.key, reason)


def say(state: State, key: GangKey, reason: Reason | None) -> list[Action]:
    """Say why a gang waits (or that it does not), if that is news, also to but one member."""
    record = state.record(key)
    gang, heard = state.roster.gangs.get(key), record.heard
    if reason is None or gang is None:
        record.waits_since, record.heard = None, frozenset()
        state.no_longer_starving(key)
    else:
        record.heard = frozenset(pod.metadata.uid for pod in state.members(gang).pending)
    if record.reason == reason and record.heard <= heard:
        return []
    record.reason = reason
    return [Report(key, reason)]
