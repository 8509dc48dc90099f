"""What must be done about one job: pure, and idempotent.

`decide(job, seen, settings, now)` is called by `reconcile` on every change, by `--dry-run` with
nothing seen, and by the property tests. Its answer is in order: status before the deletions that it
accounts for, the gang's object and services before pods, and at the end the gang's object goes
before pods are cleaned, so that no scheduler holds room for them.

Promise: when its actions have been carried out, it answers nothing but timers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.kinds import SERVICES
from muster.api.meta import timestamp
from muster.jobs.job import SERVED_BY_US, Job
from muster.operator import backoff, claim, ensure, gang, invalid, status, waiting
from muster.operator.actions import Action, Delete, DeleteJob, Emit, PatchStatus, Wait
from muster.operator.judge import ended_by_limit, judge, left_of_deadline, left_to_start
from muster.operator.kinds import table
from muster.operator.pods import leaving, role_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.operator.seen import Seen, Settings


def decide(job: Job, seen: Seen, settings: Settings, now: datetime) -> list[Action]:
    """The actions, in order, that bring this job on."""
    if job.deleting or job.policy.managed_by not in SERVED_BY_US:
        return []
    before = invalid.outdated(job)
    if status.outcome(before) is not None:
        return end(job, before, seen, now)
    current, events = _begun(job, before, now)
    if not status.condition(before, "Created"):
        events.extend(gang.warnings(job, seen, settings))
    if job.policy.suspend:
        return _suspend(job, current, events, seen, now)
    if status.is_true(current, "Suspended"):
        current = status.resumed(job, current, now)
        events.append(Emit(f"{job.kind}Resumed", f"{job.kind} {job.name} is resumed."))
    wanted = table.of(job).members(job, seen)
    present = {pod.metadata.name: pod for pod in (*seen.pods, *seen.orphans)}
    mine = [present[member.name] for member in wanted if member.name in present]
    current, strangers = claim.told(current, wanted, seen)
    events.extend(strangers)
    found = judge(job, current, mine, wanted, now)
    events.extend(found.events)
    claimed = claim.claimed(job, wanted, seen, settings)
    if status.outcome(found.status) is not None:
        final = status.with_active(job, found.status, _kept(job, found.status, seen))
        return [*claimed, *_written(job, final, events), *end(job, final, seen, now)]
    refused = job.invalid if job.recalled else invalid.refused(before, job)
    if refused and not invalid.goes_on(_formed(job, before, mine), seen.pods):
        return [*invalid.fail(job, current, refused, now), Wait(0.0)]
    # From here on everything is as it will be when the actions so far are done.
    moved = replace(job, status=_formed(job, found.status, mine))
    seen = _leaving(seen, found.leaving, now)
    wanted = table.of(job).members(moved, seen)
    extra = ensure.surplus(moved, wanted, seen)
    extra += ensure.misfits(moved, _leaving(seen, extra, now), settings)
    staying = _leaving(seen, extra, now)
    absent = ensure.absent(wanted, staying)
    held = backoff.held(moved.status, absent, now) or waiting.ending(wanted, staying)
    after, troubles = waiting.explained(moved, mine, seen, held)
    return [
        *claimed,
        *_written(job, after, [*events, *troubles]),
        *ensure.without(found.leaving),
        *ensure.without(extra),
        *(ensure.unused(moved, seen) if not job.recalled else ()),
        *(ensure.missing(moved, absent, staying, settings, now) if not refused else ()),
        *(ensure.without(ensure.unbound(staying)) if refused else ()),
        *_deadline(job, found.status, now),
    ]


def _begun(job: Job, before: Raw, now: datetime) -> tuple[Raw, list[Emit]]:
    """The status of a job that has been noticed, and what is to be said on that occasion."""
    events: list[Emit] = []
    current = {"startTime": timestamp(now), **before, "observedGeneration": job.generation}
    if not status.condition(before, "Created"):
        message = f"{job.kind} {job.name} is created."
        reason = f"{job.kind}Created"
        current = status.with_condition(current, "Created", "True", reason, message, now)
        events = [Emit(why, words, "Warning") for why, words in job.warnings]
    if job.invalid:
        known = status.condition(before, invalid.INVALID) or {}
        current = invalid.noted(current, job.generation, job.invalid, now)
        if known.get("message") != job.invalid:
            events.append(Emit(invalid.INVALID, job.invalid, "Warning"))
    return current, events


def refuse(job: Job, message: str, seen: Seen, now: datetime) -> list[Action]:
    """What to do about a job some of whose pods the API server does not take, with these words."""
    before = invalid.outdated(job)
    if status.outcome(before) is not None:
        return []
    current, _ = _begun(job, before, now)
    if not invalid.goes_on(before, seen.pods):
        return invalid.fail(job, current, message, now)
    after = invalid.noted(current, job.generation, message, now)
    return invalid.told(job.status, after, message)


def _formed(job: Job, current: Raw, mine: list[Pod]) -> Raw:
    """The status, which remembers that all members had started once."""
    whole = sum(pod.status.phase not in ("", "Pending") for pod in mine) >= job.total > 0
    return {**current, "formed": True} if whole and not current.get("formed") else current


def _suspend(job: Job, current: Raw, events: list[Emit], seen: Seen, now: datetime) -> list[Action]:
    if not status.is_true(current, "Suspended"):
        events.append(Emit(f"{job.kind}Suspended", f"{job.kind} {job.name} is suspended."))
    after = status.suspended(job, current, now)
    after = {name: value for name, value in after.items() if name not in status.PASSING}
    return [
        *_written(job, after, events),
        *ensure.without_group(job, seen),
        *ensure.without(status.alive(seen.pods)),
        *(Delete(SERVICES, name) for name in sorted(ensure.services(seen))),
    ]


def end(job: Job, final: Raw, seen: Seen, now: datetime) -> list[Action]:
    """A finished job: clean up as its policy says, and go when its time is up."""
    kept = _kept(job, final, seen)
    staying = {pod.metadata.uid for pod in kept}
    leaving = [pod for pod in status.alive(seen.pods) if pod.metadata.uid not in staying]
    used = {pod.metadata.name for pod in kept if pod.finished}
    unused = ensure.services(seen) - used if _policy(job, final) != "None" else set()
    change = status.change(final, status.with_active(job, final, kept))
    return [
        *([PatchStatus(change)] if change else ()),
        *ensure.without_group(job, seen),
        *ensure.without(leaving),
        *(Delete(SERVICES, name) for name in sorted(unused)),
        *_expiry(job, final, now),
    ]


def _kept(job: Job, final: Raw, seen: Seen) -> list[Pod]:
    """The pods that a finished job does not take away."""
    policy = _policy(job, final)
    return [pod for pod in seen.pods if not _cleaned(job, pod, policy)]


def _policy(job: Job, final: Raw) -> str:
    if job.policy.clean == "None" and (ended_by_limit(job, final) or invalid.rejected(final)):
        return "Running"  # A limit, or that it can never be whole: nothing of it may run on.
    return job.policy.clean


def _cleaned(job: Job, pod: Pod, policy: str) -> bool:
    """Whether the end of the job takes this pod away. A launcher's log is the job's: it stays."""
    if policy == "None" or (pod.finished and role_of(job, pod) == "Launcher"):
        return False
    return policy == "All" or not pod.finished


def _leaving(seen: Seen, gone: Iterable[Pod], now: datetime) -> Seen:
    """What will be seen when the deletion of these pods has been asked for."""
    uids = {pod.metadata.uid for pod in gone}
    return replace(
        seen, pods=tuple(leaving(p, now) if p.metadata.uid in uids else p for p in seen.pods)
    )


def _written(job: Job, after: Raw, events: list[Emit]) -> list[Action]:
    change = status.change(job.status, status.phases(after) if job.phases else after)
    return [PatchStatus(change), *events] if change else []


def _deadline(job: Job, current: Raw, now: datetime) -> list[Action]:
    both = (left_of_deadline(job, current, now), left_to_start(job, current, now))
    return [Wait(left) for left in both if left is not None]


def _expiry(job: Job, final: Raw, now: datetime) -> list[Action]:
    end = status.time(final, "completionTime")
    if job.policy.ttl is None or end is None:
        return []
    left = job.policy.ttl - (now - end).total_seconds()
    return [Wait(left)] if left > 0 else [DeleteJob()]
