"""The next actions for one pod: pure. The pod in the API, its record on this machine and the time
give a list of actions; the pod loop carries them out and asks again until no action is left.

Containers start in this order: init containers one after the other (the next one waits only until a
sidecar has started), then all the others together. When the pod's namespaces had to be created
again, the order starts over. Ephemeral containers start when they are added, and never again.
Containers stop in reverse order: the ordinary ones, then the sidecars
from the last to the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubekit.objects.meta import seconds_left
from localkube.node.pod import Container, Pod, is_sidecar_container

if TYPE_CHECKING:
    from datetime import datetime

    from localkube.node.runtime.pod_records import Attempt, PodRecord

# The delays of the kubelet: 10 s, doubled with every restart, at most five minutes.
_EVICTED_GRACE = 1.0
"""Seconds for an evicted pod, as with the kubelet: it must not write on."""
_FIRST_DELAY = 10.0
_MAX_DELAY = 300.0
_RESET_AFTER = 600.0
"""Seconds of running after which the restart delays start over."""
_TRUNCATED = 1.0
"""The API writes times in whole seconds: a deletion may be up to this much later than written."""


@dataclass(frozen=True)
class Open:
    """Make the pod's namespaces."""


@dataclass(frozen=True)
class Start:
    container: Container
    number: int


@dataclass(frozen=True)
class Stop:
    """Stop a container within the grace period; `reason` says why if the pod itself continues."""

    container: Container
    number: int
    grace: float
    reason: str = ""


@dataclass(frozen=True)
class Close:
    """Kill everything in the pod's namespaces."""


@dataclass(frozen=True)
class Remove:
    """Delete the pod from the API: nothing of it runs any more."""


Action = Open | Start | Stop | Close | Remove


@dataclass(frozen=True)
class Decision:
    """The actions to take now, and the seconds after which to decide again if nothing happens."""

    actions: tuple[Action, ...] = ()
    revisit_in: float | None = None


def decide(pod: Pod, record: PodRecord, now: datetime) -> Decision:
    if pod.terminating:
        return _delete(pod, record, now)
    left = deadline_in(pod, now)
    over = pod.finished or verdict(pod, record) is not None
    if over or (left is not None and left <= 0):
        return _stop_all(pod, record)
    if record.alive and not record.open:
        # The namespaces are gone, and the kernel kills their processes: wait for the exits.
        return Decision((Close(),))
    starts, next_start = _starts(pod, record, now)
    if starts and not record.open:
        return Decision((Open(),))
    waits = [seconds for seconds in (next_start, left) if seconds is not None]
    starts += _starts_of_ephemeral(pod, record)
    return Decision((*_stops_of_failed(pod, record), *starts), min(waits, default=None))


def _delete(pod: Pod, record: PodRecord, now: datetime) -> Decision:
    deletion = pod.metadata.deletion_timestamp
    assert deletion is not None
    if not record.alive:
        return Decision((Close(), Remove()) if record.open else (Remove(),))
    grace = pod.metadata.deletion_grace_period_seconds or 0
    left = min(float(grace), (deletion - now).total_seconds() + _TRUNCATED)
    if left <= 0:
        return Decision((Close(), Remove()))
    # The shims send SIGKILL when the grace period is over; a second later the pod is closed.
    return Decision(_stops(pod, record, left), left + 1.0)


def _stop_all(pod: Pod, record: PodRecord) -> Decision:
    """The pod has ended: stop the containers that still run, then close its namespaces."""
    grace = min(float(pod.grace), _EVICTED_GRACE) if pod.evicted else float(pod.grace)
    stops = _stops(pod, record, grace) if record.open else ()
    if stops:
        return Decision(stops, grace + 1.0)
    # Closing may have failed halfway, and the sandbox may have ended by itself.
    unclosed = record.known and not record.closed
    return Decision((Close(),) if record.pause or record.alive or unclosed else ())


def _stops(pod: Pod, record: PodRecord, grace: float) -> tuple[Stop, ...]:
    """The containers to stop now: all but the sidecars, and then the last sidecar."""
    attempts = [(c, record.last(c.name)) for c in pod.with_ephemeral]
    alive = [(c, last) for c, last in attempts if last is not None and last.alive]
    ordinary = [(c, last) for c, last in alive if not is_sidecar_container(c)]
    # Sidecars stop one at a time, because an earlier one may serve a later one.
    return tuple(Stop(c, last.number, grace) for c, last in ordinary or alive[-1:])


def deadline_in(pod: Pod, now: datetime) -> float | None:
    """Seconds until the pod's activeDeadlineSeconds; None if it has none."""
    limit, start = pod.spec.active_deadline_seconds, pod.status.start_time
    if limit is None or start is None:
        return None
    return limit - (now - start).total_seconds()


def outcome(pod: Pod, record: PodRecord) -> str | None:
    """`Succeeded` or `Failed` once no container runs or will run again; None before."""
    alive = record.open and any(c.name in record.alive for c in pod.all_containers)
    return None if alive else verdict(pod, record)


def verdict(pod: Pod, record: PodRecord) -> str | None:
    """`Succeeded` or `Failed` once no container but sidecars will run again; None before."""
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
    """Whether a container runs or will run again after this attempt."""
    policy = pod.spec.restart_policy
    return attempt.alive or policy == "Always" or (policy == "OnFailure" and attempt.exit_code != 0)


def restart_delay(attempt: Attempt, record: PodRecord) -> float:
    """Seconds between a container's exit and its next start; the first restart has no delay.

    A container that exited together with its namespaces has none either: the cluster was stopped or
    the machine restarted, and the container did not fail.
    """
    sandbox_gone = not record.open or attempt.sandbox != record.sandbox
    if attempt.finished_at is None or attempt.restarts == 0 or sandbox_gone:
        return 0.0
    if attempt.started_at is not None:
        ran = (attempt.finished_at - attempt.started_at).total_seconds()
        if ran >= _RESET_AFTER:
            return 0.0
    # The exponent has a limit: a float overflows after some thousand restarts.
    return min(_MAX_DELAY, _FIRST_DELAY * 2.0 ** min(attempt.restarts - 1, 10))


def restart_in(attempt: Attempt, record: PodRecord, now: datetime) -> float:
    """Seconds until a container that exited is started again."""
    if attempt.finished_at is None:
        return 0.0
    return seconds_left(attempt.finished_at, restart_delay(attempt, record), now)


def initialized(pod: Pod, record: PodRecord) -> bool:
    """Whether the pod's ordinary containers may start."""
    return all(_passed(pod, container, record) for container in pod.spec.init_containers)


def _passed(pod: Pod, container: Container, record: PodRecord) -> bool:
    """Whether the container after this one may start.

    Attempts in earlier namespaces do not count: volumes in memory were lost with the namespaces.
    """
    attempt = record.current(container.name)
    if attempt is None:
        return False
    if is_sidecar_container(container):
        # A sidecar that restarts does not hold up containers that have already started.
        after = pod.all_containers[pod.all_containers.index(container) + 1 :]
        return attempt.started or any(record.current(later.name) for later in after)
    return not attempt.alive and attempt.exit_code == 0


def _starts(pod: Pod, record: PodRecord, now: datetime) -> tuple[list[Action], float | None]:
    """The containers to start now, and the seconds until another one must start."""
    actions: list[Action] = []
    waits: list[float] = []

    def consider(container: Container, *, restart: bool) -> None:
        attempt = record.last(container.name)
        if attempt is None:
            actions.append(Start(container, 0))
        elif not attempt.alive and restart:
            left = restart_in(attempt, record, now)
            if left <= 0:
                actions.append(Start(container, attempt.number + 1))
            else:
                waits.append(left)

    for container in pod.spec.init_containers:
        if is_sidecar_container(container):
            consider(container, restart=True)
        elif not _passed(pod, container, record):
            # In new namespaces it must run again even if the pod never restarts containers.
            earlier_sandbox = record.current(container.name) is None
            consider(container, restart=earlier_sandbox or pod.spec.restart_policy != "Never")
        if not _passed(pod, container, record):
            return actions, min(waits, default=None)
    for container in pod.spec.containers:
        attempt = record.last(container.name)
        consider(container, restart=attempt is not None and may_restart(pod, attempt))
    return actions, min(waits, default=None)


def _starts_of_ephemeral(pod: Pod, record: PodRecord) -> list[Action]:
    """The ephemeral containers to start: each once, in namespaces that others opened."""
    if not record.open:
        return []
    new = (c for c in pod.spec.ephemeral_containers if record.last(c.name) is None)
    return [Start(container, 0) for container in new]


def _stops_of_failed(pod: Pod, record: PodRecord) -> list[Action]:
    """The containers that failed a probe or hook and must be restarted."""
    stops: list[Action] = []
    for container in pod.all_containers:
        last = record.last(container.name)
        if last is not None and last.health.failed:
            grace = pod.grace if last.health.grace is None else last.health.grace
            stops.append(Stop(container, last.number, float(grace), last.health.failed))
    return stops
