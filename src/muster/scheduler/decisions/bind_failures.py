"""Failed binds: the room is held, and the gang is retried first in line, less and less often.

A gang that stays half-bound because the server rejects the bind of a member is released, like a
half-bound gang that finds no room, and pauses longer after each release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from muster.scheduler.cluster.snapshot import Hold
from muster.scheduler.decisions import reasons
from muster.scheduler.decisions.decision import Verdict
from muster.scheduler.decisions.gang_deletion import release
from muster.scheduler.gangs import holds, phase
from muster.scheduler.gangs.waiting_line import Idle, Parked, Wake

if TYPE_CHECKING:
    from kubekit.objects.core import Pod
    from muster.contract.gang import GangKey
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.decisions.reasons import Reason
    from muster.scheduler.gangs.gang_index import Gang
    from muster.scheduler.state import State

MAX_RETRY_PAUSE = 60.0
MAX_RETRY_PAUSE_HALF_BOUND = 5.0
FIRST_PAUSE_AFTER_RELEASE, MAX_PAUSE_AFTER_RELEASE = 10.0, 300.0


@dataclass(frozen=True)
class BindRetry:
    """When a gang may be tried again, and why it must wait; None in its record once it is whole."""

    not_before: float = 0.0
    failures: int = 0
    """Plans with a failed bind since the gang last had all its nodes."""
    plan: str = ""
    """The last of these plans: all failures of one plan count as one."""
    message: str = ""
    """The server's answer to the last bind that failed."""
    releases: int = 0
    """How often the gang was released because of failed binds."""


class BindFailure(NamedTuple):
    """How a bind failed: whether the pod is gone, its plan, and the server's message."""

    gone: bool = False
    plan: str = ""
    why: str = ""


def bind_failed(state: State, key: GangKey, pod: Pod, now: float, failure: BindFailure) -> None:
    """Hold the room of a bind that failed, and make its gang due.

    A pod that the server reports as gone stays a member until the watch reports it too: an answer
    can come from a stale server.
    """
    state.now, (gone, plan, why) = now, failure
    slot = state.unassume(pod.metadata.uid)
    gang = state.index.gangs.get(key)
    if gang is None:
        return
    # A gang with a minimum of one needs no hold: no running member waits for this one.
    is_gang = gang.terms is not None and gang.terms.min > 1
    if slot is not None and is_gang and state.missing(gang).total:
        brief = Hold(now + holds.SECONDS_AFTER_DELETION, promised=False)
        full = holds.full_hold(state.settings, gang, now)
        state.hold_room(gang, slot, brief if gone else full)
    record = state.record(key)
    retry = record.retry or BindRetry()
    if not gone and why:
        message = f"{pod.metadata.name} could not be bound: {why}"
        # Of the pods of one plan the first by name, whichever answer comes last: a message that
        # changes at every attempt would be written at every attempt.
        is_first = plan != retry.plan or not retry.message or message < retry.message
        retry = replace(retry, message=message if is_first else retry.message)
    if not plan or plan != retry.plan:
        failures = retry.failures + 1
        not_before = max(retry.not_before, now + _pause_after(gang, failures))
        retry = replace(retry, failures=failures, plan=plan, not_before=not_before)
    current = phase.half_bound_until(record.phase, now + state.settings.repair_seconds)
    state.note(key, retry=retry, phase=current)
    state.mark_due(key)


def _pause_after(gang: Gang, failures: int) -> float:
    """No pause after the first failure, then longer ones; shorter while members are bound."""
    if failures < 2:
        return 0.0
    longest = MAX_RETRY_PAUSE_HALF_BOUND if gang.started else MAX_RETRY_PAUSE
    return min(longest, 0.1 * 2.0 ** min(failures, 20))


def pause(view: GangView) -> Verdict | None:
    """The verdict about a gang that must not be tried yet: release or wait; None if it may be."""
    retry = view.retry
    assert retry is not None
    if isinstance(view.phase, phase.Whole | phase.Done) and not view.members.pending:
        view.retry = None
        return None
    released = _release_half_bound(view, retry)
    if released is not None:
        return released
    if retry.not_before <= view.now:
        return None
    if not view.members.pending and not retry.message:
        return Verdict(Idle(until=retry.not_before))
    waits = reason(view) or view.record.rest.reason or reasons.bind_failed("a pod is gone")
    wakes = Wake.STORAGE if waits.code == reasons.PROVISIONING else Wake.OWN
    return Verdict(Parked(waits, wakes, until=_wake_at(view, retry)))


def _wake_at(view: GangView, retry: BindRetry) -> float:
    current = phase.standing(view.phase)
    release_at = current.release_at if isinstance(current, phase.HalfBound) else None
    if release_at is None or release_at <= view.now:  # then it waits for its binds in flight
        return retry.not_before
    return min(retry.not_before, release_at)


def _release_half_bound(view: GangView, retry: BindRetry) -> Verdict | None:
    """Release a gang that failed binds have left half-bound for too long."""
    current = phase.standing(view.phase)
    if not retry.failures or not view.missing.total or not isinstance(current, phase.HalfBound):
        return None
    release_at = current.release_at
    if not view.started or current.undeletable or release_at is None or release_at > view.now:
        return None
    released = release(view, reasons.half_bound(retry.message))
    if released is not None:
        seconds = FIRST_PAUSE_AFTER_RELEASE * 2.0 ** min(retry.releases, 10)
        until = max(retry.not_before, view.now + min(MAX_PAUSE_AFTER_RELEASE, seconds))
        view.retry = replace(retry, releases=retry.releases + 1, not_before=until)
    return released


def reason(view: GangView) -> Reason | None:
    """Why the last binds failed, until the gang has all its nodes."""
    retry, current = view.retry, phase.standing(view.phase)
    if retry is None or not retry.failures or not retry.message:
        return None
    stays = isinstance(current, phase.HalfBound) and current.undeletable
    failed = reasons.bind_failed(retry.message)
    return failed.and_also(reasons.CANNOT_DELETE) if stays else failed
