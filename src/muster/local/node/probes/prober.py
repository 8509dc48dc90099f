"""Is a container started, is it ready, should it be killed: its postStart hook and its probes.

The pod loop asks `look`, which answers the pod's record with every attempt's `health` filled in and
keeps one task per running container that has a hook or probes. A change of health makes the loop
look at the pod again. As in Kubernetes: the hook comes first, then the startup probe alone until it
passes, then readiness and liveness side by side; a hook, startup or liveness probe that fails for
good means that the container is to be stopped, and its restart policy says what follows.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from muster.local.node.probes.tasks import AttemptKey, ContainerTasks
from muster.local.node.runtime.pod_records import Health, State

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.local.node.events import EventRecorder
    from muster.local.node.pod import Container, Handler, Pod, Probe
    from muster.local.node.probes.handlers import HandlerResult
    from muster.local.node.runtime.pod_records import Attempt, PodRecord


class RunsHandlers(Protocol):
    """What carries out handlers: `checks.Checks`, or a test."""

    async def ask(
        self, uid: str, container: Container, handler: Handler, limit: float | None
    ) -> HandlerResult: ...


class ProbeStreak(NamedTuple):
    """What a probe is believed to say, and how often in a row it has said the other thing."""

    passing: bool
    good: int = 0
    bad: int = 0

    def after(self, probe: Probe, *, well: bool) -> ProbeStreak:
        good, bad = (self.good + 1, 0) if well else (0, self.bad + 1)
        if well and good >= probe.success_threshold:
            return ProbeStreak(True, good, bad)
        if not well and bad >= probe.failure_threshold:
            return ProbeStreak(False, good, bad)
        return ProbeStreak(self.passing, good, bad)


def needs_watching(container: Container) -> bool:
    """Whether running alone does not make the container ready."""
    hook = container.lifecycle is not None and container.lifecycle.post_start is not None
    probes = (container.startup_probe, container.readiness_probe, container.liveness_probe)
    return hook or any(probe is not None for probe in probes)


def first_health(pod: Pod, container: Container, number: int) -> Health:
    """What to believe before anything was asked: what the API was told, if it is of this attempt.

    So a daemon that comes back neither makes a ready pod unready nor runs its hook again.
    """
    for told in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if told.name == container.name and told.restart_count == number and told.state.running:
            return Health(bool(told.started), told.ready)
    return Health(started=False, ready=False)


class Prober:
    def __init__(
        self,
        asks: RunsHandlers,
        recorder: EventRecorder,
        clock: Callable[[], datetime],
        crew: ContainerTasks,
    ) -> None:
        self._asks = asks
        self._recorder = recorder
        self._clock = clock
        self._crew = crew
        self._health: dict[AttemptKey, Health] = {}
        self.changed: Callable[[str], None] = lambda uid: None

    def look(self, pod: Pod, record: PodRecord) -> PodRecord:
        """The record with what is known of every running container's health."""
        containers = {c.name: c for c in (*pod.spec.init_containers, *pod.spec.containers)}
        seen = dict(record.containers)
        running: set[AttemptKey] = set()
        for name, attempts in record.containers.items():
            container, last = containers.get(name), attempts[-1]
            if container is None or not last.alive or not needs_watching(container):
                continue
            place = AttemptKey(pod.metadata.uid, name, last.number)
            if last.state is State.RUNNING and pod.metadata.deletion_timestamp is None:
                running.add(place)
                self._begin(place, pod, container, last)
            health = self._health.get(place) or first_health(pod, container, last.number)
            seen[name] = (*attempts[:-1], replace(last, health=health))
        self._end(pod.metadata.uid, running)
        return replace(record, containers=seen)

    def forget(self, uid: str) -> None:
        self._end(uid, set())

    def _begin(self, place: AttemptKey, pod: Pod, container: Container, attempt: Attempt) -> None:
        if place not in self._health:
            self._health[place] = first_health(pod, container, attempt.number)
            self._crew.start(place, lambda: self._watch(place, pod, container, attempt))

    def _end(self, uid: str, running: set[AttemptKey]) -> None:
        for place in self._crew.places(uid):
            if place not in running:
                self._crew.stop(place)
                self._health.pop(place, None)

    async def _watch(
        self, place: AttemptKey, pod: Pod, container: Container, attempt: Attempt
    ) -> None:
        begun = attempt.started_at or self._clock()
        if not self._health[place].started:
            if not await self._hook(place, pod, container):
                return
            if container.startup_probe is not None:
                await self._probe(place, pod, container, "Startup", begun)
            if self._health[place].unwell:
                return
            self._set(place, Health(started=True, ready=False))
        if container.readiness_probe is None:
            self._set(place, Health(started=True, ready=True))
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                group.create_task(self._probe(place, pod, container, "Readiness", begun))
            if container.liveness_probe is not None:
                group.create_task(self._probe(place, pod, container, "Liveness", begun))

    async def _hook(self, place: AttemptKey, pod: Pod, container: Container) -> bool:
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None:
            return True
        result = await self._asks.ask(place.uid, container, hook, None)
        if not result.well:
            said = f"PostStartHook failed: {result.said}"
            self._recorder.say(pod, "FailedPostStartHook", said, warning=True, once=str(place))
            self._set(place, Health(False, False, unwell=f"{container.name} failed its start hook"))
        return result.well

    async def _probe(
        self, place: AttemptKey, pod: Pod, container: Container, kind: str, begun: datetime
    ) -> None:
        """Ask until the startup probe has passed, a container is unwell, or for ever."""
        probe = getattr(container, f"{kind.lower()}_probe")
        passing = self._health[place].ready if kind == "Readiness" else kind == "Liveness"
        tally = ProbeStreak(passing)
        waited = (self._clock() - begun).total_seconds()
        await asyncio.sleep(max(0.0, probe.initial_delay_seconds - waited))
        while True:
            result = await self._asks.ask(place.uid, container, probe, probe.timeout_seconds)
            if not result.well:
                said = f"{kind} probe failed: {result.said}"
                self._recorder.say(pod, "Unhealthy", said, warning=True, once=str(place))
            tally = tally.after(probe, well=result.well)
            if self._told(place, container, kind, tally, probe):
                return
            await asyncio.sleep(probe.period_seconds)

    def _told(
        self, place: AttemptKey, container: Container, kind: str, tally: ProbeStreak, probe: Probe
    ) -> bool:
        """Take a probe's verdict; whether it has no more to say."""
        before = self._health[place]
        if kind == "Readiness":
            self._set(place, replace(before, ready=tally.passing))
            return False
        if kind == "Startup" and tally.passing:
            return True
        if not tally.bad or tally.passing or tally.bad < probe.failure_threshold:
            return False
        why = f"{container.name} failed {kind.lower()} probe"
        grace = probe.termination_grace_period_seconds
        self._set(place, replace(before, ready=False, unwell=why, grace=grace))
        return True

    def _set(self, place: AttemptKey, health: Health) -> None:
        if self._health.get(place) != health:
            self._health[place] = health
            self.changed(place.uid)
