"""One gang as it stands now, for the length of one decision; and what is said of it.

Made by `decide`, used by `rooms` and `remedy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.scheduler.actions import Action, Say

if TYPE_CHECKING:
    from muster.scheduler.entry import Entry
    from muster.scheduler.explain import Reason
    from muster.scheduler.gangs import GangKey, Terms
    from muster.scheduler.hold import Missing
    from muster.scheduler.parked import Spot
    from muster.scheduler.roster import Gang, Muster
    from muster.scheduler.state import State


@dataclass
class Case:
    """A gang, its members, its terms and what it lacks."""

    state: State
    gang: Gang
    entry: Entry
    terms: Terms
    muster: Muster
    missing: Missing
    now: float

    @property
    def key(self) -> GangKey:
        return self.gang.key

    @property
    def started(self) -> bool:
        """Whether members of ours are running, or on their way."""
        names = self.state.roster.names
        return any(pod.spec.scheduler_name in names for pod in self.muster.bound)

    @property
    def annotations(self) -> dict[str, str]:
        """What the gang's own object is annotated with."""
        return self.gang.declared.metadata.annotations if self.gang.declared is not None else {}


def wait(case: Case, reason: Reason | None, spot: Spot) -> list[Action]:
    """Park the gang until something helps it, and say why it waits."""
    if case.entry.waits_since is None and reason is not None:
        case.entry.waits_since = case.now
    case.state.parked.park(case.key, spot)
    return say(case.state, case.key, reason)


def say(state: State, key: GangKey, reason: Reason | None) -> list[Action]:
    """Say why a gang waits (or that it does not), if that is news, also to but one member."""
    entry = state.entry(key)
    gang, heard = state.roster.gangs.get(key), entry.heard
    if reason is None or gang is None:
        entry.waits_since, entry.heard = None, frozenset()
        state.no_longer_starving(key)
    else:
        entry.heard = frozenset(pod.metadata.uid for pod in state.muster(gang).pending)
    if entry.reason == reason and entry.heard <= heard:
        return []
    entry.reason = reason
    return [Say(key, reason)]
