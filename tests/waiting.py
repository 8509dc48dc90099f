"""Waiting for real processes: poll a condition until a deadline instead of sleeping a guess.

Used by tests that drive real processes or a real API server, where virtual time cannot reach.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")


def until(
    check: Callable[[], T | None], *, timeout: float = 60.0, what: str = "", every: float = 0.02
) -> T:
    """Poll `check`; returns its first truthy result, or raises AssertionError with `what`."""
    deadline = time.monotonic() + timeout
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(
                f"{what or check} did not happen in {timeout:g} s; last answer: {answer!r}"
            )
        time.sleep(every)


@overload
async def eventually(
    check: Callable[[], Awaitable[T]], *, timeout: float = ..., what: str = ..., every: float = ...
) -> T: ...


@overload
async def eventually(
    check: Callable[[], T], *, timeout: float = ..., what: str = ..., every: float = ...
) -> T: ...


async def eventually(
    check: Callable[[], Any], *, timeout: float = 60.0, what: str = "", every: float = 0.02
) -> Any:
    """`until` for coroutines: does not block the loop."""
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        answer = check()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return answer
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(
                f"{what or check} did not happen in {timeout:g} s; last answer: {answer!r}"
            )
        await asyncio.sleep(every)


async def in_parallel(calls: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)


async def connections_closed() -> None:
    """Wait until every connection of this loop is closed.

    A TLS connection that was in use when its client was closed says goodbye in the background; a
    loop that ends before leaves its socket to the garbage collector, which complains.
    """
    selector: Any = getattr(asyncio.get_running_loop(), "_selector", None)
    await eventually(lambda: selector is None or len(selector.get_map()) <= 1, what="hanging up")
