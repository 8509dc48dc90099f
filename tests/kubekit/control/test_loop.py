"""The reconcile loop: its four outcomes, and that nothing but cancellation ends it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kubekit.client.retry import Backoff
from kubekit.control.loop import Outcome, RequeueAfter, TerminalError, run_workers
from kubekit.control.work_queue import WorkQueue
from kubekit.errors import Bug
from kubekit.request_errors import Conflict, TooManyRequests, Unreachable
from kubekit.telemetry import unexpected_errors
from tests.unexpected_errors import counted

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has one line per place and interval: no earlier test may have written it."""
    monkeypatch.setattr(unexpected_errors, "_lines", {})


class Bench:
    """A queue, a scripted reconcile function, and a record of its attempts."""

    def __init__(self, *script: RequeueAfter | BaseException | None) -> None:
        self.queue: WorkQueue[str] = WorkQueue("bench", backoff=Backoff(first=1, jitter=0))
        self.visits: list[tuple[float, str]] = []
        self.outcomes: list[tuple[Outcome, float]] = []
        self._script = list(script)

    async def reconcile(self, key: str) -> RequeueAfter | None:
        self.visits.append((asyncio.get_running_loop().time(), key))
        step = self._script.pop(0) if self._script else None
        if isinstance(step, BaseException):
            raise step
        return step

    def hook(self, name: str, outcome: Outcome, seconds: float) -> None:
        assert name == "bench"
        self.outcomes.append((outcome, seconds))

    async def run(self, seconds: float) -> None:
        """Work for so long (of virtual time), then stop in the ordinary way."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self.queue, self.reconcile, hook=self.hook))
            await asyncio.sleep(seconds)
            self.queue.shutdown()

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.visits]


async def test_a_key_whose_reconcile_returns_none_rests_until_it_is_added() -> None:
    bench = Bench(None)
    bench.queue.add("a")

    await bench.run(3600)

    assert bench.visits == [(0, "a")]
    assert [outcome for outcome, _ in bench.outcomes] == [Outcome.DONE]


async def test_a_key_is_reconciled_again_after_the_time_it_requests() -> None:
    bench = Bench(RequeueAfter(30), RequeueAfter(60), None)
    bench.queue.add("a")

    await bench.run(3600)

    assert bench.times == pytest.approx([0, 30, 90])
    assert [o for o, _ in bench.outcomes] == [Outcome.AGAIN, Outcome.AGAIN, Outcome.DONE]


async def test_an_error_is_retried_with_backoff(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Unreachable("no answer"), Unreachable("no answer"), None)
    bench.queue.add("a")

    await bench.run(3600)

    assert bench.times == pytest.approx([0, 1, 3])
    assert [o for o, _ in bench.outcomes] == [Outcome.RETRY, Outcome.RETRY, Outcome.DONE]
    assert "bench a: will retry in 1.00 s: no answer" in caplog.messages
    assert all(record.exc_info is None for record in caplog.records)


async def test_a_terminal_error_is_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(TerminalError("this will never do"))
    bench.queue.add("a")

    await bench.run(3600)

    assert bench.times == [0]
    assert [o for o, _ in bench.outcomes] == [Outcome.TERMINAL]
    assert "bench a: giving up: this will never do" in caplog.messages
    assert bench.queue.delayed == 0


async def test_a_programming_error_is_logged_with_its_traceback_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(ZeroDivisionError("oops"), None)
    bench.queue.add("a")

    await bench.run(10)

    assert bench.times == pytest.approx([0, 1])
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "ZeroDivisionError: oops" in caplog.text
    assert "Traceback" in caplog.text


async def test_a_conflict_is_not_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(Conflict("modified", status=409), None)
    bench.queue.add("a")

    await bench.run(10)

    assert len(bench.times) == 2
    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []


async def test_retry_after_of_the_server_is_respected_also_inside_a_group() -> None:
    busy = TooManyRequests("slow down", status=429, retry_after=25)
    bench = Bench(busy, ExceptionGroup("parts", [Unreachable("x"), busy]), None)
    bench.queue.add("a")

    await bench.run(100)

    assert bench.times == pytest.approx([0, 25, 50])


async def test_one_bad_key_does_not_hold_up_the_others() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=Backoff(first=1, jitter=0))
    done: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad":
            raise ValueError("always")
        done.append(key)

    for key in ("bad", "x", "y"):
        queue.add(key)
    async with asyncio.TaskGroup() as group:
        group.create_task(run_workers(queue, reconcile))
        await asyncio.sleep(0.5)
        assert done == ["x", "y"]
        queue.shutdown()


async def test_workers_share_the_keys_but_never_one_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    running: list[str] = []
    most = 0

    async def reconcile(key: str) -> None:
        nonlocal most
        assert key not in running
        running.append(key)
        most = max(most, len(running))
        if asyncio.get_running_loop().time() < 100:
            queue.add(key)
        await asyncio.sleep(1)
        running.remove(key)

    for key in "abcde":
        queue.add(key)
    async with asyncio.TaskGroup() as group:
        group.create_task(run_workers(queue, reconcile, workers=3))
        await asyncio.sleep(200)
        queue.shutdown()
    assert most == 3


async def test_shutdown_lets_the_running_attempt_finish() -> None:
    queue: WorkQueue[str] = WorkQueue()
    finished: list[str] = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(10)
        finished.append(key)

    queue.add("a")
    queue.add("b")
    async with asyncio.TaskGroup() as group:
        group.create_task(run_workers(queue, reconcile))
        await asyncio.sleep(5)
        queue.shutdown()

    assert finished == ["a"]


async def test_cancellation_passes_through_and_a_later_run_finds_the_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    finished: list[str] = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(10)
        finished.append(key)

    queue.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await run_workers(queue, reconcile)
    assert finished == []

    async with asyncio.TaskGroup() as group:
        group.create_task(run_workers(queue, reconcile))
        await asyncio.sleep(11)
        queue.shutdown()
    assert finished == ["a"]


async def test_a_cancellation_from_inside_does_not_cost_a_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(asyncio.CancelledError(), None)
    bench.queue.add("a")

    await bench.run(10)

    assert bench.times == pytest.approx([0, 1])
    assert f"kubekit.errors.{Bug.__name__}" in caplog.text


async def test_a_burst_of_keys_leaves_the_event_loop_its_turns() -> None:
    queue: WorkQueue[int] = WorkQueue()
    seen: list[int] = []

    async def from_memory(key: int) -> None:
        seen.append(key)

    for key in range(1000):
        queue.add(key)
    async with asyncio.TaskGroup() as group:
        group.create_task(run_workers(queue, from_memory))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < len(seen) < 10
        queue.shutdown()


async def test_the_hook_gets_the_duration_of_an_attempt() -> None:
    queue: WorkQueue[str] = WorkQueue("slow")
    attempts: list[tuple[str, Outcome, float]] = []

    async def reconcile(_: str) -> None:
        await asyncio.sleep(4)

    queue.add("a")
    async with asyncio.TaskGroup() as group:
        group.create_task(run_workers(queue, reconcile, hook=lambda *what: attempts.append(what)))
        await asyncio.sleep(5)
        queue.shutdown()
    assert [(name, outcome) for name, outcome, _ in attempts] == [("slow", Outcome.DONE)]
    assert attempts[0][2] == pytest.approx(4)


async def test_an_error_at_the_moment_of_cancellation_does_not_keep_a_worker_running() -> None:
    """A task group that has an error raises it, and not the cancellation."""
    queue: WorkQueue[str] = WorkQueue()

    async def reconcile(key: str) -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            raise ExceptionGroup("errors of tasks", [OSError()]) from None

    queue.add("a")
    task = asyncio.create_task(run_workers(queue, reconcile))
    await asyncio.sleep(1)

    task.cancel()
    await asyncio.wait([task], timeout=60)

    assert task.cancelled()


async def test_bugs_are_counted_and_logged_at_a_bounded_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(*(ValueError("9" * 100_000) for _ in range(20)))
    before = counted().get("bench", 0)
    for key in "abcdefghijklmnopqrst":
        bench.queue.add(key)

    await bench.run(100)

    assert counted()["bench"] == before + 20
    assert len([key for _, key in bench.visits]) == 40  # each was tried again
    assert len(caplog.messages) == 1
    assert len(caplog.messages[0]) < 10_000
