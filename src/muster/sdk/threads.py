"""Blocking calls for async programs: each in a thread of its own, awaited by a task.

A task that is cancelled aborts the connections of its call, so that the thread ends too. There is
no pool of a fixed size: a call that waits for hours must not keep another from starting.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from muster.sdk.connection import Cancellation, cancelled_by

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

T = TypeVar("T")
_AHEAD = 1000
"""Items that an iterator may be ahead of the task that reads them."""
_END = object()


async def run(call: Callable[[], T], cancellation: Cancellation | None = None) -> T:
    """The result of the call. Cancelling the task ends the call's connections."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    cancellation = cancellation or Cancellation()

    def settle(value: T | None, error: BaseException | None) -> None:
        if result.done():
            return  # the task was cancelled
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type] # of the call, if it has no error

    def work() -> None:
        value: T | None = None
        failure: BaseException | None = None
        try:
            with cancelled_by(cancellation):
                value = call()
        except StopIteration as error:  # a coroutine cannot raise it: it would wait for ever
            failure = RuntimeError("the call raised StopIteration")
            failure.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - raised in the task that waits
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, value, failure)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    try:
        return await result
    except asyncio.CancelledError:
        cancellation.cancel()
        raise


async def iterate(call: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """The items of the iterator that the call returns, as they come."""
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[object] = asyncio.Queue()
    room, cancellation = threading.Semaphore(_AHEAD), Cancellation()

    def produce() -> None:
        try:
            for item in call():
                room.acquire()
                if cancellation.cancelled:
                    return
                loop.call_soon_threadsafe(items.put_nowait, item)
        finally:
            with suppress(RuntimeError):  # the loop is closed: nobody reads
                loop.call_soon_threadsafe(items.put_nowait, _END)

    reading = asyncio.create_task(run(produce, cancellation))  # owner: the iteration below
    try:
        while (item := await items.get()) is not _END:
            room.release()
            yield item  # type: ignore[misc] # all items but the end are of the iterator
        await reading
    finally:
        cancellation.cancel()
        room.release()  # a thread that waits for room sees that it was cancelled
        reading.cancel()
