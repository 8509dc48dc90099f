"""Tasks that belong to containers, all in one task group.

There is one task per attempt: starting a second one for the same attempt has no effect, also after
the first has ended.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from localkube.node.runtime.attempts import AttemptKey

    Work = Callable[[], Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)


class ContainerTasks:
    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[AttemptKey, Work]] = asyncio.Queue()
        self._started: set[AttemptKey] = set()
        self._tasks: dict[AttemptKey, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run the tasks that `start` is given, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                attempt, work = await self._waiting.get()
                # It may have been stopped while it waited in the queue.
                if attempt in self._started and attempt not in self._tasks:
                    self._tasks[attempt] = group.create_task(_guarded(attempt, work))

    def start(self, attempt: AttemptKey, work: Work) -> None:
        if attempt not in self._started:
            self._started.add(attempt)
            self._waiting.put_nowait((attempt, work))

    def attempts(self, uid: str) -> list[AttemptKey]:
        """The attempts of a pod whose task was started and not stopped."""
        return [attempt for attempt in self._started if attempt.uid == uid]

    def stop(self, attempt: AttemptKey) -> None:
        self._started.discard(attempt)
        task = self._tasks.pop(attempt, None)
        if task is not None:
            task.cancel()


async def _guarded(attempt: AttemptKey, work: Work) -> None:
    """Do the work; an error in it concerns no other container."""
    try:
        await work()
    except Exception:
        log.exception("the probes or hooks of %s in pod %s ended", attempt.container, attempt.uid)
