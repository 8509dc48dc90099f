"""The work queue: one worker per key, nothing missed, delays and backoff on virtual time."""

from __future__ import annotations

import asyncio

import pytest

from kubekit.client.retry import Backoff
from kubekit.control.work_queue import WorkQueue

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


def steady(first: float = 1.0, cap: float = 60.0) -> Backoff:
    """A backoff without jitter."""
    return Backoff(first=first, cap=cap, jitter=0.0)


async def test_keys_come_out_in_the_order_they_went_in() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abc":
        queue.add(key)

    assert [await anext(queue) for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_added_twice_is_handed_out_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("a")

    assert await anext(queue) == "a"
    queue.done("a")

    assert len(queue) == 0


async def test_a_key_is_not_handed_to_a_second_worker() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await anext(queue)
    queue.add("a")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await anext(queue)


async def test_a_key_added_while_being_worked_on_is_worked_on_once_more() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await anext(queue)
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0

    queue.done("a")

    assert await anext(queue) == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_getter_that_waits_is_woken_by_an_added_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    async with asyncio.TaskGroup() as group:
        getter = group.create_task(anext(queue))
        await asyncio.sleep(5)
        queue.add("a")
    assert getter.result() == "a"


async def test_a_delayed_key_comes_at_its_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 30)
    assert (len(queue), queue.delayed) == (0, 1)

    await anext(queue)

    assert now() == pytest.approx(30)
    assert queue.delayed == 0


@pytest.mark.parametrize("delays", [(30.0, 10.0), (10.0, 30.0)])
async def test_of_two_delays_the_earlier_wins(delays: tuple[float, float]) -> None:
    queue: WorkQueue[str] = WorkQueue()
    for delay in delays:
        queue.add_after("a", delay)

    await anext(queue)
    queue.done("a")

    assert now() == pytest.approx(10)
    assert queue.delayed == 0


async def test_an_immediate_add_does_not_remove_a_pending_delay() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 30)
    queue.add("a")
    await anext(queue)
    queue.done("a")

    await anext(queue)

    assert now() == pytest.approx(30)


@pytest.mark.parametrize("delay", [0.0, -5.0])
async def test_a_delay_in_the_past_is_due_at_once(delay: float) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", delay)
    assert len(queue) == 1


async def test_a_delay_that_ends_while_the_key_is_worked_on_brings_it_back() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await anext(queue)
    queue.add_after("a", 5)
    await asyncio.sleep(10)
    assert len(queue) == 0

    queue.done("a")

    assert len(queue) == 1


async def test_done_can_request_another_attempt() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await anext(queue)
    queue.done("a", again=7)

    await anext(queue)

    assert now() == pytest.approx(7)


async def test_a_failing_key_comes_back_at_growing_intervals_up_to_the_cap() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=steady(first=1, cap=5))
    queue.add("a")
    times = []
    for _ in range(6):
        await anext(queue)
        times.append(now())
        queue.retry("a")

    assert times == pytest.approx([0, 1, 3, 7, 12, 17])


async def test_success_resets_the_backoff() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=steady())
    queue.add("a")
    for _ in range(4):
        await anext(queue)
        queue.retry("a")
    await anext(queue)
    queue.done("a")

    queue.add("a")
    await anext(queue)

    assert queue.retry("a") == 1.0


async def test_one_failing_key_does_not_slow_another_down() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=steady())
    queue.add("bad")
    for _ in range(5):
        await anext(queue)
        queue.retry("bad")

    queue.add("good")
    await anext(queue)

    assert queue.retry("good") == 1.0


async def test_retry_after_of_the_server_can_exceed_the_backoff() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=steady())
    queue.add("a")
    await anext(queue)
    queue.retry("a", at_least=40)

    await anext(queue)

    assert now() == pytest.approx(40)


async def test_a_change_cuts_a_long_backoff_short() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=steady(first=1000, cap=1000))
    queue.add("a")
    await anext(queue)
    queue.retry("a")

    queue.add("a")

    await anext(queue)
    assert now() == 0


async def test_a_change_during_a_failed_attempt_is_looked_at_soon_but_not_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=steady(first=1000, cap=1000))
    queue.add("a")
    await anext(queue)
    queue.add("a")
    queue.retry("a")
    assert len(queue) == 0

    await anext(queue)

    assert now() == pytest.approx(1.0)


async def test_the_longest_attempt_is_the_oldest_that_has_not_ended() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("b")
    assert queue.longest == 0
    await anext(queue)
    await asyncio.sleep(10)
    await anext(queue)
    await asyncio.sleep(5)
    assert queue.longest == pytest.approx(15)

    queue.done("a")
    assert queue.longest == pytest.approx(5)
    queue.done("b")
    assert queue.longest == 0


def test_jitter_spreads_the_delays_between_half_and_whole() -> None:
    assert Backoff(first=8, random=lambda: 0.0).delay(1) == 8
    assert Backoff(first=8, random=lambda: 1.0).delay(1) == 4
    delays = {Backoff(first=8).delay(1) for _ in range(50)}
    assert len(delays) > 1
    assert all(4 <= delay <= 8 for delay in delays)


def test_a_key_that_failed_a_million_times_waits_for_the_cap() -> None:
    assert steady(cap=60).delay(1_000_000) == 60


async def test_shutdown_wakes_every_worker() -> None:
    queue: WorkQueue[str] = WorkQueue()

    async def ends() -> bool:
        with pytest.raises(StopAsyncIteration):
            await anext(queue)
        return True

    async with asyncio.TaskGroup() as group:
        getters = [group.create_task(ends()) for _ in range(3)]
        await asyncio.sleep(1)
        queue.shutdown()
    assert all(getter.result() for getter in getters)


async def test_after_shutdown_no_key_is_handed_out_or_accepted() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 5)
    assert await anext(queue) == "a"
    queue.add("a")

    queue.shutdown()
    queue.done("a", again=1)
    queue.add("d")
    queue.add_after("e", 1)
    await asyncio.sleep(10)

    assert [key async for key in queue] == []
    assert len(queue) == 0
    assert queue.delayed == 0


async def test_a_worker_cancelled_while_waiting_loses_no_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await anext(queue)

    queue.add("a")

    assert await anext(queue) == "a"
