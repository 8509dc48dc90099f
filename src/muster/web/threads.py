"""The dashboard's own threads: one computes, a few wait for the API.

`arena up` runs the dashboard, the API server and the node in one process, with one event loop. The
loop's default threads belong to the API server and the node. If calls of the dashboard waited in
them, they could occupy the very threads that the API server needs to answer these calls.

Views and templates are computation, and only one thread of a Python process computes at a time. A
second one would make no page faster, but the event loop would wait longer for each of its turns.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_COMPUTING = ThreadPoolExecutor(1, "dashboard-page")
_WAITING = ThreadPoolExecutor(16, "dashboard-call")


async def compute(work: Callable[[], T]) -> T:
    """The result of a long computation; the event loop goes on meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_COMPUTING, work)


async def call(work: Callable[[], T]) -> T:
    """The result of work that mostly waits for an answer."""
    return await asyncio.get_running_loop().run_in_executor(_WAITING, work)
