"""Probes and hooks change a container's health; tested in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from localkube.node.container_lifecycle import ContainerStopper
from localkube.node.pod import Container, Handler, Pod, Probe
from localkube.node.probes import ContainerTasks, HandlerResult, Prober, ProbeStreak
from localkube.node.runtime.pod_records import Attempt, Health, State
from tests.localkube.node.pod_builders import container, make_pod, record

HTTP = {"httpGet": {"port": 80}}
EXEC = {"exec": {"command": ["check"]}}
pytestmark = pytest.mark.looptime


def clock() -> datetime:
    return datetime.fromtimestamp(asyncio.get_running_loop().time(), UTC)


class ScriptedHandlers:
    """Results that depend on the time and the handler."""

    def __init__(self, ok: Callable[[float, Handler], bool]) -> None:
        self._ok = ok
        self.times: list[float] = []

    async def run(
        self, uid: str, container: Container, handler: Handler, limit: float | None
    ) -> HandlerResult:
        now = asyncio.get_running_loop().time()
        self.times.append(now)
        if handler.sleep is not None:
            await asyncio.sleep(handler.sleep.seconds)
        return HandlerResult(self._ok(now, handler), "no good")


class RecordedEvents:
    """Stands in for PodEvents."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def record(self, pod: Pod, reason: str, message: str, **_: Any) -> None:
        self.events.append((reason, message))


class Bench:
    """A running container with its prober."""

    def __init__(self, ok: Callable[[float, Handler], bool], **fields: Any) -> None:
        self.status: dict[str, Any] = {}
        self._fields = fields
        self.handlers = ScriptedHandlers(ok)
        self.events = RecordedEvents()
        self.tasks = ContainerTasks()
        self.prober = Prober(self.handlers, self.events, clock, self.tasks)  # type: ignore[arg-type]
        self.begun = clock()

    def health(self, number: int = 0) -> Health:
        pod = make_pod("p", container("main", **self._fields), status=self.status)
        attempt = Attempt(number, State.RUNNING, pid=1, started_at=self.begun)
        last = self.prober.with_health(pod, record(main=attempt)).last("main")
        assert last is not None
        return last.health

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.tasks.run())
            self.health()
            yield
            task.cancel()

    async def at(self, second: float) -> Health:
        await asyncio.sleep(second - asyncio.get_running_loop().time())
        return self.health()


def test_a_probe_changes_state_after_its_threshold_of_equal_results() -> None:
    probe = Probe(success_threshold=2, failure_threshold=3)
    streak = ProbeStreak(False)
    states = []
    for ok in (True, False, True, True, False, False, True, False, False, False):
        streak = streak.after(probe, ok=ok)
        states.append(streak.passing)

    assert states == [False, False, False, True, True, True, True, True, True, False]


async def test_without_probes_a_running_container_is_ready_and_no_handler_runs() -> None:
    bench = Bench(lambda now, handler: False)
    async with bench.watching():
        assert await bench.at(100) == Health()
    assert bench.handlers.times == []


async def test_readiness_follows_the_probe_both_ways() -> None:
    probe = {**HTTP, "initialDelaySeconds": 3, "periodSeconds": 5, "failureThreshold": 2}
    bench = Bench(lambda now, handler: 10 < now < 30, readinessProbe=probe)
    async with bench.watching():
        assert await bench.at(12.9) == Health(started=True, ready=False)
        assert await bench.at(13.1) == Health(started=True, ready=True)
        assert await bench.at(37.9) == Health(started=True, ready=True)
        assert await bench.at(38.1) == Health(started=True, ready=False)
    assert bench.handlers.times[:3] == [3, 8, 13]
    assert ("Unhealthy", "Readiness probe failed: no good") in bench.events.events


async def test_a_failed_liveness_probe_fails_the_container() -> None:
    probe = {**EXEC, "periodSeconds": 2, "terminationGracePeriodSeconds": 7}
    bench = Bench(lambda now, handler: now < 9, livenessProbe=probe)
    async with bench.watching():
        assert await bench.at(13.9) == Health()
        assert await bench.at(14.1) == Health(
            started=True, ready=False, failed="main failed liveness probe", grace=7
        )
        assert await bench.at(60) == await bench.at(61)
    assert bench.handlers.times[-1] == 14


async def test_no_other_probe_runs_before_the_startup_probe_has_passed() -> None:
    startup = {**HTTP, "periodSeconds": 10, "failureThreshold": 30}
    liveness = {**EXEC, "periodSeconds": 1, "failureThreshold": 1}

    def succeeds(now: float, handler: Handler) -> bool:
        return now > 95 if handler.http_get is not None else now > 50

    bench = Bench(succeeds, startupProbe=startup, livenessProbe=liveness)
    async with bench.watching():
        assert await bench.at(99) == Health(started=False, ready=False)
        assert await bench.at(101) == Health(started=True, ready=True)
    assert bench.handlers.times[:12] == [*range(0, 101, 10), 100]


async def test_a_failed_startup_probe_fails_the_container() -> None:
    startup = {**HTTP, "periodSeconds": 1, "failureThreshold": 5}
    bench = Bench(lambda now, handler: False, startupProbe=startup)
    async with bench.watching():
        assert (await bench.at(3.5)).failed == ""
        assert (await bench.at(4.5)).failed == "main failed startup probe"


async def test_the_post_start_hook_runs_first_and_its_failure_fails_the_container() -> None:
    hook = {"postStart": {"sleep": {"seconds": 4}}}
    good = Bench(lambda now, handler: True, lifecycle=hook, readinessProbe=HTTP)
    async with good.watching():
        assert await good.at(3.9) == Health(started=False, ready=False)
        assert await good.at(4.1) == Health(started=True, ready=True)

    bad = Bench(lambda now, handler: False, lifecycle={"postStart": EXEC})
    async with bad.watching():
        assert (await bad.at(5)).failed == "main failed its start hook"
    assert bad.events.events == [("FailedPostStartHook", "PostStartHook failed: no good")]


async def test_a_restarted_daemon_starts_from_the_reported_status() -> None:
    hook = {"postStart": EXEC}
    bench = Bench(lambda now, handler: now > 5, lifecycle=hook, readinessProbe=HTTP)
    status = {"name": "main", "ready": True, "started": True, "restartCount": 0}
    bench.status = {"containerStatuses": [status | {"state": {"running": {}}}]}
    async with bench.watching():
        assert await bench.at(1) == Health(started=True, ready=True)
        assert await bench.at(12) == Health(started=True, ready=True)
    assert bench.handlers.times == [0, 10]


async def test_a_new_attempt_starts_with_new_health() -> None:
    bench = Bench(lambda now, handler: now < 1, readinessProbe=HTTP)
    async with bench.watching():
        assert (await bench.at(0.5)).ready
        await bench.at(2)
        assert bench.health(1) == Health(started=False, ready=False)
        await asyncio.sleep(1)
        assert bench.health(1) == Health(started=True, ready=False)
    assert bench.handlers.times == [0, 2]


class Stopped:
    def __init__(self) -> None:
        self.stops: list[tuple[float, float]] = []

    async def stop(self, uid: str, container: str, grace: float) -> None:
        self.stops.append((asyncio.get_running_loop().time(), grace))


@pytest.mark.parametrize(
    ("hook", "grace", "expected"),
    [
        (None, 30.0, (0, 30.0)),
        ({"sleep": {"seconds": 4}}, 30.0, (4, 26.0)),
        ({"sleep": {"seconds": 4}}, 5.0, (4, 2.0)),
        ({"sleep": {"seconds": 4}}, 0.0, (0, 0.0)),
    ],
)
async def test_the_pre_stop_hook_runs_within_the_grace_period(
    hook: dict[str, Any] | None, grace: float, expected: tuple[float, float]
) -> None:
    runtime, tasks = Stopped(), ContainerTasks()
    handlers = ScriptedHandlers(lambda now, handler: True)
    stopper = ContainerStopper(runtime, handlers, RecordedEvents(), tasks)  # type: ignore[arg-type]
    pod = make_pod("p", container("main", lifecycle={"preStop": hook} if hook else None))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(tasks.run())
        for _ in range(2 if hook else 1):
            await stopper.stop(pod, pod.spec.containers[0], 0, grace)
        await asyncio.sleep(20)
        task.cancel()

    assert runtime.stops[0] == expected
    assert len(runtime.stops) == (1 if grace else 2)
