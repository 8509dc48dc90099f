"""THE RECONCILE LOOP: take a key, reconcile it, and decide what happens to the key next.

An attempt has one of four outcomes, decided here and nowhere else:

    returns None              DONE      the key rests until something adds it
    returns RequeueAfter(s)   AGAIN     the key is reconciled again in s seconds
    raises TerminalError      TERMINAL  a retry cannot help; the key rests until something adds it
    raises anything else      RETRY     the key comes back after its own backoff

A reconcile function gets a key, reads everything else itself and must be idempotent. Whatever it
raises, the loop goes on: one bad object never stops the others. Cancellation passes through and
puts the key back, so that a later run of the loop finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kubekit.errors import Bug, MusterError, describe
from kubekit.request_errors import Conflict, TooManyRequests
from kubekit.telemetry import metrics, unexpected_errors

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kubekit.control.work_queue import WorkQueue


log = logging.getLogger(__name__)

ATTEMPTS = metrics.counter("reconcile_total", "Attempts by loop and outcome.", "loop", "outcome")
SECONDS = metrics.histogram("reconcile_seconds", "How long an attempt took.", "loop")
DEPTH = metrics.gauge("queue_depth", "Keys that wait for a worker.", "loop")
DELAYED = metrics.gauge("queue_delayed", "Keys that wait for a timer.", "loop")
LEADING = metrics.gauge(
    "leading", "1 while this process acts, 0 while it is a standby.", "component"
)


class TerminalError(MusterError):
    """A reconcile that no retry can repair."""


@dataclass(frozen=True)
class RequeueAfter:
    """A reconcile function returns this to be called again after `seconds`."""

    seconds: float


class Outcome(Enum):
    """The result of one attempt."""

    DONE = "done"
    AGAIN = "again"
    RETRY = "retry"
    TERMINAL = "terminal"


K = TypeVar("K", bound="Hashable")
Reconcile: TypeAlias = Callable[[K], Awaitable[RequeueAfter | None]]
Hook: TypeAlias = Callable[[str, Outcome, float], None]
"""Called with the loop's name, the outcome and the seconds of every attempt; must not raise."""


def count_attempt(loop: str, outcome: Outcome, seconds: float) -> None:
    """Count one attempt: a hook for `run_workers`."""
    ATTEMPTS.labels(loop, outcome.value).inc()
    SECONDS.labels(loop).observe(seconds)


def show_depth(queue: WorkQueue[Any]) -> None:
    """Show this queue's length at every scrape."""
    DEPTH.labels(queue.name).set_function(lambda: len(queue))
    DELAYED.labels(queue.name).set_function(lambda: queue.delayed)


async def run_workers(
    queue: WorkQueue[K], reconcile: Reconcile[K], *, workers: int = 1, hook: Hook = count_attempt
) -> None:
    """Reconcile the queue's keys with this many workers, until the queue is shut down.

    Returns when the last attempt has ended. Never raises an error of a reconcile function.
    """
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_worker(queue, reconcile, hook), name=f"{queue.name}-{number}")


async def _worker(queue: WorkQueue[K], reconcile: Reconcile[K], hook: Hook) -> None:
    clock = asyncio.get_running_loop().time
    async for key in queue:
        started = clock()
        outcome = await _attempt(queue, reconcile, key)
        hook(queue.name, outcome, clock() - started)
        # Neither taking a waiting key nor a reconcile that awaits nothing gives the event loop a
        # turn: without this a burst of keys would stall watches and health checks.
        await asyncio.sleep(0)


async def _attempt(queue: WorkQueue[K], reconcile: Reconcile[K], key: K) -> Outcome:
    try:
        after = await _guarded(reconcile, key)
    except asyncio.CancelledError:
        # Added before it is done: a key that a worker has is marked as changed, and `done` then
        # puts it back in the queue.
        queue.add(key)
        queue.done(key)
        raise
    except TerminalError as error:
        queue.done(key)
        log.error("%s %s: giving up: %s", queue.name, key, error)
        return Outcome.TERMINAL
    except Exception as error:  # noqa: BLE001 - the one place that catches all: the loop must go on
        asked = (c.retry_after or 0.0 for c in _causes(error) if isinstance(c, TooManyRequests))
        delay = queue.retry(key, at_least=max(asked, default=0.0))
        _report(queue.name, key, error, delay)
        return Outcome.RETRY
    queue.done(key, again=None if after is None else after.seconds)
    return Outcome.DONE if after is None else Outcome.AGAIN


async def _guarded(reconcile: Reconcile[K], key: K) -> RequeueAfter | None:
    """Reconcile; a cancellation that was not requested of this worker is an ordinary error.

    A task group takes a cancelled child for a normal end. Without this, awaiting a future that
    somebody else cancelled would silently end a worker.
    """
    try:
        return await reconcile(key)
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise Bug("an awaited future was cancelled elsewhere") from error
    except Exception as error:
        if is_cancelled():  # a task group that has an error raises it, and not the cancellation
            raise asyncio.CancelledError from error
        raise


def is_cancelled() -> bool:
    """Whether the current task is to end."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors inside a group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


def _report(name: str, key: object, error: BaseException, delay: float) -> None:
    causes, subject = list(_causes(error)), f"{name} {key}"
    text = "; ".join(describe(cause) for cause in causes if isinstance(cause, Exception))
    if all(isinstance(cause, Conflict) for cause in causes):
        # Ordinary: the next attempt reads the newer object.
        log.debug("%s: another writer was first, will retry in %.2f s: %s", subject, delay, text)
    elif all(
        isinstance(cause, MusterError | OSError) and not isinstance(cause, Bug) for cause in causes
    ):
        log.warning("%s: will retry in %.2f s: %s", subject, delay, text)
    else:
        unexpected_errors.survived(name, key, error, f", will retry in {delay:.2f} s")
