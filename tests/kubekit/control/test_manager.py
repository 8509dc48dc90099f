"""The manager: order of start, graceful stop, leadership, and that a crash is never hidden."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kubekit.control.leader_election import LeaseLost
from kubekit.control.manager import Manager
from kubekit.control.work_queue import WorkQueue
from kubekit.request_errors import Unreachable
from kubekit.telemetry.health import Health
from kubekit.telemetry.metrics import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


class FakeInformer:
    """Syncs after some seconds, then stays until cancelled; may crash at a time."""

    def __init__(self, *, syncs: float = 0.0, crashes: float | None = None) -> None:
        self._syncs = syncs
        self._crashes = crashes
        self._synced = asyncio.Event()
        self.stale_reason = ""
        self.ended = False

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    async def synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        try:
            await asyncio.sleep(self._syncs)
            self._synced.set()
            if self._crashes is not None:
                await asyncio.sleep(self._crashes - self._syncs)
                raise Unreachable("the watch broke")
            await asyncio.Event().wait()
        finally:
            self.ended = True


class Slow:
    """A reconcile function that takes some time and records its attempts."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.started: list[float] = []
        self.finished: list[float] = []

    async def __call__(self, _: str) -> None:
        self.started.append(now())
        await asyncio.sleep(self.seconds)
        self.finished.append(now())


async def stop_at(manager: Manager, seconds: float) -> None:
    """Run the manager, asking it to stop at that time."""
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await asyncio.sleep(seconds)
        manager.stop()


def queue_of(*keys: str) -> WorkQueue[str]:
    queue: WorkQueue[str] = WorkQueue("jobs")
    for key in keys:
        queue.add(key)
    return queue


async def test_no_loop_starts_before_every_informer_has_synced() -> None:
    manager = Manager("m")
    manager.informer(FakeInformer(syncs=5))
    manager.informer(FakeInformer(syncs=20))
    reconcile = Slow(0)
    manager.loop(queue_of("a"), reconcile)

    await stop_at(manager, 60)

    assert reconcile.started == [20]


async def test_readiness_follows_the_informers() -> None:
    health = Health()
    manager = Manager("m", health=health)
    manager.informer(FakeInformer(syncs=5))
    manager.informer(FakeInformer(syncs=20))
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await asyncio.sleep(10)
        assert health.readiness().results["informers"] == "1 of 2 informers not synced"
        assert health.liveness().healthy
        await asyncio.sleep(15)
        assert health.readiness().healthy
        manager.stop()


async def test_a_daemon_with_stale_informers_is_alive_but_not_ready() -> None:
    health = Health()
    manager = Manager("m", health=health)
    first, second = manager.informer(FakeInformer()), manager.informer(FakeInformer())
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await asyncio.sleep(1)
        first.stale_reason = second.stale_reason = "cannot reach the server"
        assert health.readiness().results["informers"] == "cannot reach the server"
        assert health.liveness().healthy
        first.stale_reason = second.stale_reason = ""
        assert health.readiness().healthy
        manager.stop()


async def test_a_daemon_with_an_attempt_that_never_ends_is_not_alive() -> None:
    health = Health()
    manager = Manager("m", health=health, grace=1)
    manager.loop(queue_of("a"), Slow(1_000_000))
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await asyncio.sleep(500)
        assert health.liveness().healthy
        await asyncio.sleep(200)
        assert health.liveness().results == {
            "loops": "an attempt of jobs has been running for 700 s"
        }
        manager.stop()


async def test_a_daemon_with_nothing_to_do_stays_alive() -> None:
    health = Health()
    manager = Manager("m", health=health)
    manager.loop(queue_of("a"), Slow(1))
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await asyncio.sleep(100_000)
        assert health.liveness().healthy
        manager.stop()


async def test_an_event_given_to_run_ends_it_and_is_never_set_by_it() -> None:
    stop = asyncio.Event()
    manager = Manager("m")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run(stop))
        await asyncio.sleep(10)
        assert not running.done()
        stop.set()

    crashing, untouched = Manager("m"), asyncio.Event()
    crashing.informer(FakeInformer(crashes=5))
    with pytest.raises(Unreachable):
        await crashing.run(untouched)
    assert not untouched.is_set()


async def test_stop_finishes_the_running_attempt_and_takes_no_new_key() -> None:
    manager = Manager("m", grace=20)
    informer = manager.informer(FakeInformer())
    reconcile = Slow(10)
    manager.loop(queue_of("a", "b"), reconcile)

    await stop_at(manager, 5)

    assert reconcile.finished == [10]
    assert len(reconcile.started) == 1
    assert informer.ended
    assert now() == pytest.approx(10)


async def test_informers_run_until_the_last_attempt_has_ended() -> None:
    manager = Manager("m")
    informer = manager.informer(FakeInformer())
    ended_before: list[bool] = []

    async def reconcile(_: str) -> None:
        await asyncio.sleep(10)
        ended_before.append(informer.ended)

    manager.loop(queue_of("a"), reconcile)

    await stop_at(manager, 5)

    assert ended_before == [False]


async def test_an_attempt_that_outlasts_the_grace_is_cancelled() -> None:
    manager = Manager("m", grace=20)
    reconcile = Slow(1000)
    manager.loop(queue_of("a"), reconcile)

    await stop_at(manager, 5)

    assert reconcile.finished == []
    assert now() == pytest.approx(25)


async def test_cancellation_is_as_graceful_as_stop_and_passes_through() -> None:
    manager = Manager("m", grace=20)
    reconcile = Slow(10)
    manager.loop(queue_of("a", "b"), reconcile)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await manager.run()

    assert reconcile.finished == [10]
    assert len(reconcile.started) == 1


async def test_stop_does_not_wait_for_informers_that_never_sync() -> None:
    manager = Manager("m", grace=20)
    manager.informer(FakeInformer(syncs=1e6))
    reconcile = Slow(0)
    manager.loop(queue_of("a"), reconcile)

    await stop_at(manager, 5)

    assert reconcile.started == []
    assert now() == pytest.approx(5)


async def test_a_crash_of_an_informer_stops_everything_and_is_raised() -> None:
    manager = Manager("m")
    manager.informer(FakeInformer(crashes=30))
    other = manager.informer(FakeInformer())
    manager.loop(queue_of("a"), Slow(1000))

    with pytest.raises(Unreachable, match="the watch broke"):
        await manager.run()

    assert other.ended
    assert now() == pytest.approx(30)


async def test_a_crash_of_a_led_task_is_raised_without_its_exception_group() -> None:
    manager = Manager("m")

    async def crash() -> None:
        raise Unreachable("no luck")

    manager.background("part", crash, led=True)

    with pytest.raises(Unreachable, match="no luck"):
        await manager.run()


async def test_two_crashes_at_once_are_both_reported() -> None:
    manager = Manager("m")
    manager.informer(FakeInformer(crashes=30))
    manager.informer(FakeInformer(crashes=30))

    with pytest.raises(ExceptionGroup) as caught:
        await manager.run()

    assert len(caught.value.exceptions) == 2


async def test_a_failing_reconcile_does_not_stop_the_manager() -> None:
    manager = Manager("m")
    attempts: list[float] = []

    async def reconcile(_: str) -> None:
        attempts.append(now())
        raise ValueError("always")

    manager.loop(queue_of("a"), reconcile)

    await stop_at(manager, 30)

    assert len(attempts) > 3


async def test_background_tasks_run_from_start_to_end_and_may_end_early() -> None:
    manager = Manager("m")
    manager.informer(FakeInformer(syncs=50))
    record: list[str] = []

    async def long() -> None:
        record.append("long starts")
        try:
            await asyncio.Event().wait()
        finally:
            record.append("long ends")

    async def short() -> None:
        record.append("short")

    manager.background("long", long)
    manager.background("short", short)

    await stop_at(manager, 10)

    assert record == ["long starts", "short", "long ends"]


class FakeElection:
    """An election that is won and lost at fixed times."""

    def __init__(self, *turns: tuple[float, float]) -> None:
        self._turns = list(turns)

    async def run_as_leader(self, work: Callable[[], Awaitable[None]]) -> None:
        if not self._turns:
            await asyncio.Event().wait()
        start, end = self._turns.pop(0)
        await asyncio.sleep(start - now())
        try:
            async with asyncio.timeout(end - now()):
                await work()
        except TimeoutError:
            raise LeaseLost("somebody else leads") from None


async def test_loops_act_only_while_leading_and_resume_what_was_cut_short() -> None:
    manager = Manager("m", lead=FakeElection((10, 15), (100, 200)).run_as_leader)
    informer = manager.informer(FakeInformer())
    reconcile = Slow(8)
    manager.loop(queue_of("a"), reconcile)

    await stop_at(manager, 150)

    assert reconcile.started == pytest.approx([10, 100])
    assert reconcile.finished == pytest.approx([108])
    assert informer.ended


async def test_a_follower_stops_at_once() -> None:
    manager = Manager("m", lead=FakeElection().run_as_leader, grace=20)
    manager.loop(queue_of("a"), Slow(1))

    await stop_at(manager, 5)

    assert now() == pytest.approx(5)


async def test_a_led_task_runs_only_while_the_process_leads() -> None:
    manager = Manager("m", lead=FakeElection((10, 15), (100, 200)).run_as_leader)
    spans: list[tuple[float, float]] = []

    async def part() -> None:
        start = now()
        try:
            await asyncio.Event().wait()
        finally:
            spans.append((start, now()))

    manager.background("part", part, led=True)

    await stop_at(manager, 150)

    assert spans == [pytest.approx((10, 15)), pytest.approx((100, 150))]


async def test_a_metric_says_whether_the_process_leads() -> None:
    manager = Manager("metered", lead=FakeElection((10, 15), (100, 200)).run_as_leader)
    leading: list[float | None] = []

    async def observe() -> None:
        for second in (5, 12, 50, 120):
            await asyncio.sleep(second - now())
            leading.append(REGISTRY.get_sample_value("muster_leading", {"component": "metered"}))

    manager.background("observe", observe)

    await stop_at(manager, 150)

    assert leading == [0, 1, 0, 1]
    assert REGISTRY.get_sample_value("muster_leading", {"component": "metered"}) == 0


async def test_with_restarts_what_crashes_starts_again_and_the_rest_goes_on() -> None:
    manager = Manager("m", restarts=True)
    runs: list[float] = []

    async def crash() -> None:
        runs.append(now())
        raise OverflowError("date value out of range")

    manager.background("hostile", crash)
    manager.background("led", crash, led=True)
    informer = manager.informer(FakeInformer(crashes=5))
    reconcile = Slow(1)
    queue = queue_of("a")
    manager.loop(queue, reconcile)
    asyncio.get_running_loop().call_later(500, queue.add, "b")

    await stop_at(manager, 1000)

    assert reconcile.finished == [1, 501]
    assert informer.ended
    assert 40 < len(runs) < 100  # two tasks, each less and less often: about once a minute
