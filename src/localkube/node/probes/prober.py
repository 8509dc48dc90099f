"""Whether a container is started, ready, or must be killed: its postStart hook and its probes.

`with_health` returns a pod's record with every attempt's `health` filled in, and keeps one task per
running container that has a hook or probes. A change of health wakes the pod loop. As in
Kubernetes: the hook runs first, then the startup probe alone until it passes, then readiness and
liveness probes in parallel. When a hook, startup or liveness probe has failed, the container is
stopped, and its restart policy decides whether it starts again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from localkube.node.runtime.attempts import AttemptKey, Health, State

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from localkube.node.events import PodEvents
    from localkube.node.pod import Container, Pod, Probe
    from localkube.node.probes.container_tasks import ContainerTasks
    from localkube.node.probes.handlers import HandlerRunner
    from localkube.node.runtime.attempts import Attempt
    from localkube.node.runtime.pod_records import PodRecord


_SHORTEST_PERIOD = 0.02
"""Seconds. The API allows no less than a second; a probe without a pause would stall the node."""


class ProbeStreak(NamedTuple):
    """Whether a probe counts as passing, and its successes or failures in a row."""

    passing: bool
    successes: int = 0
    failures: int = 0

    def after(self, probe: Probe, *, ok: bool) -> ProbeStreak:
        successes, failures = (self.successes + 1, 0) if ok else (0, self.failures + 1)
        passing = self.passing
        if successes >= probe.success_threshold:
            passing = True
        elif failures >= probe.failure_threshold:
            passing = False
        return ProbeStreak(passing, successes, failures)


def has_hook_or_probes(container: Container) -> bool:
    """Whether the container has a postStart hook or probes: running alone is not ready."""
    hook = container.lifecycle is not None and container.lifecycle.post_start is not None
    probes = (container.startup_probe, container.readiness_probe, container.liveness_probe)
    return hook or any(probe is not None for probe in probes)


def first_health(pod: Pod, container: Container, number: int) -> Health:
    """The health before the first probe: from the pod's status, if that is of this attempt.

    So a restarted daemon neither makes a ready pod unready nor runs its postStart hook again.
    """
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        same_attempt = status.name == container.name and status.restart_count == number
        if same_attempt and status.state.running:
            return Health(bool(status.started), status.ready)
    return Health(started=False, ready=False)


class Prober:
    def __init__(
        self,
        handlers: HandlerRunner,
        events: PodEvents,
        clock: Callable[[], datetime],
        tasks: ContainerTasks,
    ) -> None:
        self._handlers = handlers
        self._events = events
        self._clock = clock
        self._tasks = tasks
        self._health: dict[AttemptKey, Health] = {}
        self.changed: Callable[[str], None] = lambda uid: None

    def with_health(self, pod: Pod, record: PodRecord) -> PodRecord:
        """The record with the health of every running container."""
        containers = {c.name: c for c in pod.all_containers}
        updated = dict(record.containers)
        running: set[AttemptKey] = set()
        for name, attempts in record.containers.items():
            container, last = containers.get(name), attempts[-1]
            if container is None or not last.alive or not has_hook_or_probes(container):
                continue
            key = AttemptKey(pod.metadata.uid, name, last.number)
            if last.state is State.RUNNING and not pod.terminating:
                running.add(key)
                self._begin(key, pod, container, last)
            # The probes of a pod that is being deleted have ended: its last status counts.
            health = self._health.get(key) or first_health(pod, container, last.number)
            updated[name] = (*attempts[:-1], replace(last, health=health))
        self._end(pod.metadata.uid, running)
        return replace(record, containers=updated)

    def forget(self, uid: str) -> None:
        self._end(uid, set())

    def _begin(self, key: AttemptKey, pod: Pod, container: Container, attempt: Attempt) -> None:
        if key not in self._health:  # one task per attempt, also after it has ended
            self._health[key] = first_health(pod, container, attempt.number)
            self._tasks.start(key, lambda: self._watch(key, pod, container, attempt))

    def _end(self, uid: str, running: set[AttemptKey]) -> None:
        for key in self._tasks.attempts(uid):
            if key not in running:
                self._tasks.stop(key)
                self._health.pop(key, None)

    async def _watch(
        self, key: AttemptKey, pod: Pod, container: Container, attempt: Attempt
    ) -> None:
        begun = attempt.started_at or self._clock()
        if not self._health[key].started:
            if not await self._hook(key, pod, container):
                return
            if container.startup_probe is not None:
                await self._probe(key, pod, container, "Startup", begun)
            if self._health[key].failed:
                return
            # Started, but not ready before the first success of a readiness probe.
            self._set(key, Health(started=True, ready=False))
        if container.readiness_probe is None:
            self._set(key, Health(started=True, ready=True))
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                group.create_task(self._probe(key, pod, container, "Readiness", begun))
            if container.liveness_probe is not None:
                group.create_task(self._probe(key, pod, container, "Liveness", begun))

    async def _hook(self, key: AttemptKey, pod: Pod, container: Container) -> bool:
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None:
            return True
        result = await self._handlers.run(key.uid, container, hook, None)
        if not result.ok:
            message = f"PostStartHook failed: {result.output}"
            self._events.record(pod, "FailedPostStartHook", message, warning=True, once=str(key))
            self._set(key, Health(False, False, failed=f"{container.name} failed its start hook"))
        return result.ok

    async def _probe(
        self, key: AttemptKey, pod: Pod, container: Container, kind: str, begun: datetime
    ) -> None:
        """Probe until the startup probe has passed or the container has failed, else for ever."""
        probe = getattr(container, f"{kind.lower()}_probe")
        # Before its first result a liveness probe counts as passed, a startup probe does not.
        passing = self._health[key].ready if kind == "Readiness" else kind == "Liveness"
        streak = ProbeStreak(passing)
        # The delay counts from the container's start, also after a restart of the daemon.
        waited = (self._clock() - begun).total_seconds()
        await asyncio.sleep(max(0.0, probe.initial_delay_seconds - waited))
        while True:
            result = await self._handlers.run(key.uid, container, probe, probe.timeout_seconds)
            if not result.ok:
                message = f"{kind} probe failed: {result.output}"
                self._events.record(pod, "Unhealthy", message, warning=True, once=str(key))
            streak = streak.after(probe, ok=result.ok)
            if self._apply(key, container, kind, streak, probe):
                return
            await asyncio.sleep(max(_SHORTEST_PERIOD, probe.period_seconds))

    def _apply(
        self, key: AttemptKey, container: Container, kind: str, streak: ProbeStreak, probe: Probe
    ) -> bool:
        """Update the health after a probe; returns whether this probe is done."""
        before = self._health[key]
        if kind == "Readiness":
            self._set(key, replace(before, ready=streak.passing))
            return False
        if kind == "Startup" and streak.passing:
            return True
        # A startup probe does not pass at first: it has failed only at its threshold.
        if streak.passing or streak.failures < probe.failure_threshold:
            return False
        failed = f"{container.name} failed {kind.lower()} probe"
        grace = probe.termination_grace_period_seconds
        self._set(key, replace(before, ready=False, failed=failed, grace=grace))
        return True

    def _set(self, key: AttemptKey, health: Health) -> None:
        if self._health.get(key) != health:
            self._health[key] = health
            self.changed(key.uid)
