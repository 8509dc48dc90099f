"""The phases of a gang: one at a time, and the table of allowed moves.

Every decision begins with `observe`, which computes the phase from facts: which members are bound,
missing, or being bound. The decision may then move it on, for instance from Waiting to Binding. A
planned phase (Provisioning, Preempting, Binding) remembers the phase that the gang resumes if the
plan fails. Phases are values: the functions here return the next one.

Phases live in memory. After a restart of the scheduler every gang is `Unseen`, and `observe` finds
its phase again from the pods and their plan annotations.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from muster.contract.gang import RESTART_ANNOTATION
from muster.scheduler import isolated_errors
from muster.scheduler.gangs import plan_annotation
from muster.scheduler.gangs.members import Run, missing_pods
from muster.scheduler.gangs.waiting_line import Idle

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from muster.scheduler.decisions.bind_failures import BindRetry
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.decisions.reasons import Reason
    from muster.scheduler.gangs.waiting_line import Rest

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Unseen:
    """Not considered since this process started."""


@dataclass(frozen=True)
class Gathering:
    """No member of ours is bound, and some do not exist yet."""


@dataclass(frozen=True)
class Waiting:
    """All members exist, none of ours is bound: the gang does not fit, or must pause."""


@dataclass(frozen=True)
class Mending:
    """Was whole and lacks members. `holds_ended`: no room is held until it is whole again."""

    holds_ended: bool = False
    interrupted: bool = False
    """All members stopped before this process started and come back: room is held for them."""


@dataclass(frozen=True)
class HalfBound:
    """Never was whole in this run, and some members are bound."""

    release_at: float | None = None
    """When its bound members are deleted, unless the gang is whole by then."""
    undeletable: bool = False
    """No controller would recreate its members, so they are not deleted."""
    holds_ended: bool = False


Standing = Waiting | Mending | HalfBound


@dataclass(frozen=True)
class Provisioning:
    """A whole plan is held until its volume claims are bound."""

    resumes: Standing


@dataclass(frozen=True)
class Preempting:
    """A whole plan is held until its victims have left."""

    resumes: Standing
    awaited: frozenset[str]
    """The UIDs of the victims that have not left."""
    failed_deletions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Binding:
    """The binds of a plan that makes it whole are in flight or not confirmed."""

    resumes: Standing


@dataclass(frozen=True)
class Whole:
    """The minimum is bound and confirmed, or succeeded; surplus members may still wait."""


@dataclass(frozen=True)
class Leaving:
    """The whole gang is being deleted: none of it is placed until then, and no room is held."""

    awaited: frozenset[str]
    """The UIDs of the pods that are being deleted."""
    was_whole: bool
    failed_deletions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """Its run is over."""


Planned = Provisioning | Preempting | Binding
Phase = Standing | Planned | Unseen | Gathering | Whole | Leaving | Done

_FACTS = frozenset({Gathering, Waiting, Whole, Leaving, Done})
"""Facts alone lead here from nearly every phase: pods come, go, succeed, and minimums change."""
_PLANNED = frozenset({Provisioning, Preempting, Binding})
MOVES: dict[type[Phase], frozenset[type[Phase]]] = {
    Unseen: _FACTS | {Mending, HalfBound},
    Gathering: _FACTS | {HalfBound},  # bound by someone else, or a bind believed lost
    Waiting: _FACTS | _PLANNED | {HalfBound},
    Provisioning: _FACTS | _PLANNED | {Mending, HalfBound},
    Preempting: _FACTS | _PLANNED | {Mending, HalfBound},
    Binding: _FACTS | {Provisioning, Mending, HalfBound},  # never Preempting: a bind may fail
    Whole: _FACTS | {Mending},  # surplus binds do not leave it
    Mending: _FACTS | _PLANNED,  # never HalfBound: it has been whole
    HalfBound: _FACTS | _PLANNED,  # never Mending: it has not
    Leaving: _FACTS | {Mending, HalfBound},  # members that could not be deleted stayed
    Done: _FACTS | {HalfBound},
}


@dataclass(frozen=True)
class LastReport:
    """The last report about a gang: why it waits, to which pods, and its group's counts."""

    reason: Reason | None = None
    pods: frozenset[str] = frozenset()
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class GangRecord:
    """The scheduler's memory of one gang beside its members."""

    phase: Phase = field(default_factory=Unseen)
    retry: BindRetry | None = None
    run: Run = field(default_factory=Run)
    rest: Rest = field(default_factory=Idle)
    last_report: LastReport = field(default_factory=LastReport)
    evictable_above: float | None = None
    """Gangs above this priority may evict it; infinite if its group forbids that."""
    errors: int = 0
    """Decisions in a row that raised."""


def broken(promise: str) -> None:
    """Report a broken promise: it ends a test, but not a scheduler in production."""
    if isolated_errors.STRICT:
        raise AssertionError(promise)
    log.error("please report this: %s", promise)


def move(before: Phase, to: Phase) -> Phase:
    """The next phase; a phase may always be replaced by one of its own type."""
    kind = type(before)
    if type(to) is not kind and type(to) not in MOVES[kind]:
        broken(f"a gang moves from {kind.__name__} to {type(to).__name__}")
    return to


def standing(phase: Phase) -> Standing:
    """The phase of a gang without its present plan."""
    if isinstance(phase, Planned):
        return phase.resumes
    if isinstance(phase, Standing):
        return phase
    if isinstance(phase, Leaving):
        return Mending(True) if phase.was_whole else HalfBound(holds_ended=True)
    return Mending() if isinstance(phase, Whole) else Waiting()


def was_whole(phase: Phase) -> bool:
    """Whether the gang had its minimum bound in this run."""
    return isinstance(standing(phase), Mending)


def is_half_bound(phase: Phase) -> bool:
    return isinstance(standing(phase), HalfBound) and not isinstance(phase, Leaving)


def holds_ended(phase: Phase) -> bool:
    """Whether no room is held for the gang until it is whole again."""
    current = standing(phase)
    return isinstance(phase, Leaving) or (
        isinstance(current, Mending | HalfBound) and current.holds_ended
    )


# -- facts -----------------------------------------------------------------------------------------


def observe(view: GangView) -> bool:
    """Move to the phase that the facts give; whether the gang's holds end with that.

    Holds end when a gang that ran has no bound member left. They are for gangs that still run, and
    for gangs that their owner restarts as a whole or that were interrupted as a whole. A gang that
    this process has only watched ran if room is held for it.
    """
    phase = _observed(view)
    ran = isinstance(view.phase, Whole | Mending | HalfBound | Unseen)
    view.phase = move(view.phase, phase)
    return ran and not view.started and isinstance(phase, Gathering | Waiting | Done)


def _observed(view: GangView) -> Phase:
    phase = view.phase
    if isinstance(phase, Preempting):
        phase = replace(phase, awaited=phase.awaited & view.known.snapshot.slots.keys())
    if not view.missing.total:
        return _with_minimum(view, phase)
    if view.started:
        return _with_some(view, phase)
    return _with_none(view, phase)


def _with_minimum(view: GangView, phase: Phase) -> Phase:
    members = view.members
    if not members.bound and not members.pending:
        return Done()
    # Until the watch confirms the last bind it may still fail: a plan keeps its phase till then.
    if not members.being_bound or isinstance(phase, Unseen | Gathering | Waiting | Leaving | Done):
        return Whole()
    return phase


def _with_some(view: GangView, phase: Phase) -> Phase:
    if isinstance(phase, Provisioning | Preempting | Mending | HalfBound):
        return phase
    if isinstance(phase, Binding) and view.members.being_bound:
        return phase
    if isinstance(phase, Unseen):
        return HalfBound() if plan_annotation.was_cut_short(view.members) else Mending()
    current = standing(phase)
    return HalfBound() if isinstance(current, Waiting) else current


def _with_none(view: GangView, phase: Phase) -> Phase:
    # Members bound here are those of other schedulers: `started` is about ours.
    interrupted = isinstance(phase, Mending) and phase.interrupted
    runs = view.members.bound or interrupted or restarts_whole(view.annotations)
    if runs and view.held:
        if isinstance(phase, Whole | Unseen):
            return Mending()
        if isinstance(phase, Mending | HalfBound):
            return phase
    complete = bool(view.members.pending) and not missing_pods(view)
    if isinstance(phase, Preempting) and (phase.awaited or complete):
        return replace(phase, resumes=Waiting())
    if isinstance(phase, Provisioning) and complete:
        return replace(phase, resumes=Waiting())
    if view.run.succeeded_last_run and not view.members.pending:
        return Done()
    return Waiting() if complete else Gathering()


def restarts_whole(annotations: Mapping[str, str]) -> bool:
    """Whether the gang's owner deletes and recreates all members when one fails."""
    return annotations.get(RESTART_ANNOTATION) == "gang"


# -- events ----------------------------------------------------------------------------------------


def end_holds(phase: Phase) -> Phase:
    """A hold ran out: no room is held until the gang is whole again."""
    current = standing(phase)
    if isinstance(current, Mending | HalfBound):
        return _with_standing(phase, replace(current, holds_ended=True))
    return phase


def half_bound_until(phase: Phase, release_at: float) -> Phase:
    """A bind failed: release the gang at that time if it is half-bound, unless a time is set."""
    current = standing(phase)
    if isinstance(phase, Binding) and isinstance(current, Waiting):
        return _with_standing(phase, HalfBound(release_at))
    if isinstance(current, HalfBound) and current.release_at is None and not current.undeletable:
        return _with_standing(phase, replace(current, release_at=release_at))
    return phase


def cannot_release(phase: Phase) -> Phase:
    """A half-bound gang stays: no controller would recreate its members."""
    if isinstance(standing(phase), HalfBound):
        return _with_standing(phase, HalfBound(undeletable=True, holds_ended=True))
    return end_holds(phase)


def _with_standing(phase: Phase, current: Standing) -> Phase:
    """Change what the gang is without its plan; the plan itself goes on."""
    if isinstance(phase, Planned):
        return replace(phase, resumes=current)
    return current if isinstance(phase, Mending | HalfBound) else phase


def leaving(phase: Phase, pods: Set[str]) -> Leaving:
    """The phase of a gang that is being deleted, with these pods among the deleted ones."""
    if isinstance(phase, Leaving):
        return replace(phase, awaited=phase.awaited | pods)
    return Leaving(frozenset(pods), was_whole(phase))


def deletion_failed(phase: Phase, uid: str, text: str) -> Phase:
    """The phase with the reason why a pod could not be deleted; without, if there is no text."""
    if not isinstance(phase, Preempting | Leaving):
        return phase
    failed = {other: why for other, why in phase.failed_deletions.items() if other != uid}
    if text and uid in phase.awaited:
        failed[uid] = text
    return replace(phase, failed_deletions=failed)
