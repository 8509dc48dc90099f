"""Tasks that belong to containers, all owned by one task group.

Used by `prober` and `stopping`; run by the agent. One task per key: starting a key that works
already changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class AttemptKey(NamedTuple):
    """One attempt at one container of one pod."""

    uid: str
    container: str
    number: int


class ContainerTasks:
    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[AttemptKey, Callable[[], Awaitable[None]]]] = (
            asyncio.Queue()
        )
        self._wanted: set[AttemptKey] = set()
        self._tasks: dict[AttemptKey, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run what is started, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                place, work = await self._waiting.get()
                if place in self._wanted and place not in self._tasks:
                    self._tasks[place] = group.create_task(self._do(work))

    def start(self, place: AttemptKey, work: Callable[[], Awaitable[None]]) -> None:
        if place not in self._wanted:
            self._wanted.add(place)
            self._waiting.put_nowait((place, work))

    def places(self, uid: str) -> list[AttemptKey]:
        """Where work of this pod was started and not stopped."""
        return [place for place in self._wanted if place.uid == uid]

    def stop(self, place: AttemptKey) -> None:
        self._wanted.discard(place)
        task = self._tasks.pop(place, None)
        if task is not None:
            task.cancel()

    async def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()
