"""What to do next about one pod: pure. The pod as the API has it, the pod as this machine has it,
and the time, to a list of actions.

Called by the pod loop until it answers nothing more to do; the same answer for the same input.
Containers of a pod start in the order: init containers one after the other (a sidecar only has to
have started), then all the rest together; and so again when the pod's namespaces were made anew.
They stop in the reverse order: the ordinary ones, then the sidecars from the last to the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.local.node.pod import is_sidecar_container

if TYPE_CHECKING:
    from datetime import datetime

    from muster.local.node.pod import Container, Pod
    from muster.local.node.runtime.pod_records import Attempt, PodRecord

_FIRST_PAUSE = 10.0
_LONGEST_PAUSE = 300.0
_RAN_WELL = 600.0
"""Seconds after which a container that ended counts as having worked: the pauses start anew."""


_CUT_OFF = 1.0
"""The API writes times in whole seconds: a deletion may have been asked for up to so much later."""


@dataclass(frozen=True)
class Open:
    """Make the pod's namespaces."""


@dataclass(frozen=True)
class Start:
    container: Container
    number: int


@dataclass(frozen=True)
class Stop:
    """Ask a container to end, kill it after the grace; `why` if it is not the pod that ends."""

    container: Container
    number: int
    grace: float
    why: str = ""


@dataclass(frozen=True)
class Close:
    """End the namespaces and everything in them."""


@dataclass(frozen=True)
class Remove:
    """Tell the API that nothing of the pod is left."""


Action = Open | Start | Stop | Close | Remove


@dataclass(frozen=True)
class Decision:
    """What to do now, and in how many seconds to look again if nothing happens."""

    actions: tuple[Action, ...] = ()
    again: float | None = None


def decide(pod: Pod, record: PodRecord, now: datetime) -> Decision:
    if pod.metadata.deletion_timestamp is not None:
        return _end(pod, record, now)
    late = overdue(pod, now)
    over = pod.finished or verdict(pod, record) is not None
    if over or (late is not None and late <= 0):
        return _wind_down(pod, record)
    if record.alive and not record.open:
        return Decision((Close(),))  # its namespaces are gone, and so are its processes, or soon
    starts, again = _starts(pod, record, now)
    if starts and not record.open:
        return Decision((Open(),))
    waits = [seconds for seconds in (again, late) if seconds is not None]
    return Decision((*_stops_of_unwell(pod, record), *starts), min(waits, default=None))


def _end(pod: Pod, record: PodRecord, now: datetime) -> Decision:
    deletion = pod.metadata.deletion_timestamp
    assert deletion is not None
    if not record.alive:
        return Decision((Close(), Remove()) if record.open else (Remove(),))
    longest = pod.metadata.deletion_grace_period_seconds or 0
    left = min(float(longest), (deletion - now).total_seconds() + _CUT_OFF)
    if left <= 0:
        return Decision((Close(), Remove()))
    return Decision(_stops(pod, record, left), left + 1.0)


def _wind_down(pod: Pod, record: PodRecord) -> Decision:
    """The pod has ended, or must: stop what still runs, then end its namespaces."""
    stops = _stops(pod, record, float(pod.grace)) if record.open else ()
    if stops:
        return Decision(stops, pod.grace + 1.0)
    return Decision((Close(),) if record.open or record.pause or record.alive else ())


def _stops(pod: Pod, record: PodRecord, grace: float) -> tuple[Stop, ...]:
    """What may be asked to end now: all but the sidecars, and then the last of those."""
    alive = [(c, last) for c in pod.everyone if (last := record.last(c.name)) and last.alive]
    ordinary = [(c, last) for c, last in alive if not is_sidecar_container(c)]
    return tuple(Stop(c, last.number, grace) for c, last in ordinary or alive[-1:])


def overdue(pod: Pod, now: datetime) -> float | None:
    """Seconds until the pod's own deadline; None if it has none."""
    limit, start = pod.spec.active_deadline_seconds, pod.status.start_time
    if limit is None or start is None:
        return None
    return limit - (now - start).total_seconds()


def outcome(pod: Pod, record: PodRecord) -> str | None:
    """`Succeeded` or `Failed` once nothing of the pod runs or will run again; None before."""
    alive = record.open and any(_alive(container, record) for container in pod.everyone)
    return None if alive else verdict(pod, record)


def _alive(container: Container, record: PodRecord) -> bool:
    last = record.last(container.name)
    return last is not None and last.alive


def verdict(pod: Pod, record: PodRecord) -> str | None:
    """How the pod will have ended, once no container but sidecars will run again; None before."""
    for container in pod.spec.init_containers:
        attempt = record.last(container.name)
        if attempt is None or is_sidecar_container(container):
            continue
        if not attempt.alive and attempt.exit_code and pod.spec.restart_policy == "Never":
            return "Failed"
    ends = [record.last(container.name) for container in pod.spec.containers]
    final = [end for end in ends if end is not None and not may_restart(pod, end)]
    if not ends or len(final) < len(ends):
        return None
    return "Failed" if any(end.exit_code for end in final) else "Succeeded"


def may_restart(pod: Pod, attempt: Attempt) -> bool:
    """Whether a container of the pod, after this attempt, runs on or will run again."""
    policy = pod.spec.restart_policy
    return attempt.alive or policy == "Always" or (policy == "OnFailure" and attempt.exit_code != 0)


def pause(attempt: Attempt, record: PodRecord) -> float:
    """Seconds between a container's end and its next start; the first time none.

    Nor is there any after an end with all of its namespaces, as when the cluster is stopped or the
    machine restarted: that says nothing about the container.
    """
    gone = not record.open or attempt.sandbox != record.sandbox
    if attempt.finished_at is None or attempt.row == 0 or gone:
        return 0.0
    if attempt.started_at is not None:
        ran = (attempt.finished_at - attempt.started_at).total_seconds()
        if ran >= _RAN_WELL:
            return 0.0
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempt.row - 1, 10))


def restart_in(attempt: Attempt, record: PodRecord, now: datetime) -> float:
    """Seconds until a container that ended is started again."""
    if attempt.finished_at is None:
        return 0.0
    return pause(attempt, record) - (now - attempt.finished_at).total_seconds()


def initialized(pod: Pod, record: PodRecord) -> bool:
    """Whether the pod's ordinary containers may start."""
    return all(_passed(pod, container, record) for container in pod.spec.init_containers)


def _passed(pod: Pod, container: Container, record: PodRecord) -> bool:
    """Whether the container after this one may start.

    What was done in namespaces that are gone does not count: what they held in memory went along.
    """
    attempt = record.current(container.name)
    if attempt is None:
        return False
    if is_sidecar_container(container):
        after = pod.everyone[pod.everyone.index(container) + 1 :]
        return attempt.started or any(record.current(later.name) for later in after)
    return not attempt.alive and attempt.exit_code == 0


def _starts(pod: Pod, record: PodRecord, now: datetime) -> tuple[list[Action], float | None]:
    """What must start now, and how long until something else must."""
    actions: list[Action] = []
    waits: list[float] = []

    def consider(container: Container, *, again: bool) -> None:
        attempt = record.last(container.name)
        if attempt is None:
            actions.append(Start(container, 0))
        elif not attempt.alive and again:
            left = restart_in(attempt, record, now)
            if left <= 0:
                actions.append(Start(container, attempt.number + 1))
            else:
                waits.append(left)

    for container in pod.spec.init_containers:
        if is_sidecar_container(container):
            consider(container, again=True)
        elif not _passed(pod, container, record):
            stale = record.current(container.name) is None
            consider(container, again=stale or pod.spec.restart_policy != "Never")
        if not _passed(pod, container, record):
            return actions, min(waits, default=None)
    for container in pod.spec.containers:
        attempt = record.last(container.name)
        consider(container, again=attempt is not None and may_restart(pod, attempt))
    return actions, min(waits, default=None)


def _stops_of_unwell(pod: Pod, record: PodRecord) -> list[Action]:
    """Containers that their probes or hooks say should not go on."""
    stops: list[Action] = []
    for container in pod.everyone:
        last = record.last(container.name)
        if last is not None and last.health.unwell:
            grace = pod.grace if last.health.grace is None else last.health.grace
            stops.append(Stop(container, last.number, float(grace), last.health.unwell))
    return stops
