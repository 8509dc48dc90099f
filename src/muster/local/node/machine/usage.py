"""How much cpu and memory each container's processes use just now.

Asked by `backend.py` for `kubectl top`. Measured on demand: two looks at the processes, a second or
more apart, so that it costs nothing while nobody asks.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import psutil

from muster.local.apiserver.streams.node_backend import Consumption, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster.local.node.runtime.interface import Runtime

SHORTEST = 1.0
"""Seconds between two looks; over less, the kernel's ticks are too coarse."""
LONGEST = 30.0
"""Seconds after which a former look says more of the past than of now."""

ContainerKey = tuple[str, str]
"""A pod's uid and a container's name."""


class UsageSample(NamedTuple):
    """What was seen at one moment: by process, how long it ran; by place, its memory."""

    at: float
    seconds: Mapping[tuple[int, float], tuple[ContainerKey, float]]
    memory: Mapping[ContainerKey, int]


class UsageMeter:
    """Measures the containers of one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._last: UsageSample | None = None
        self._turn = asyncio.Lock()

    async def usage(self) -> Usage:
        """What is used now, over the time since the last look or a second."""
        async with self._turn:
            before = self._last
            now = time.monotonic()
            if before is None or now - before.at > LONGEST:
                before = await asyncio.to_thread(self._look)
            await asyncio.sleep(max(0.0, before.at + SHORTEST - time.monotonic()))
            self._last = await asyncio.to_thread(self._look)
            return usage_between(before, self._last, datetime.now(UTC))

    def _look(self) -> UsageSample:
        seconds: dict[tuple[int, float], tuple[ContainerKey, float]] = {}
        memory: dict[ContainerKey, int] = {}
        for place, pid in self._running():
            memory[place] = 0
            for process in _tree(pid):
                try:
                    with process.oneshot():
                        times = process.cpu_times()
                        memory[place] += process.memory_info().rss
                        key = (process.pid, process.create_time())
                except psutil.Error:
                    continue  # it has just ended
                seconds[key] = (place, times.user + times.system)
        return UsageSample(time.monotonic(), seconds, memory)

    def _running(self) -> Iterable[tuple[ContainerKey, int]]:
        for uid in self._runtime.uids():
            record = self._runtime.read(uid)
            for container in record.alive:
                attempt = record.last(container)
                if attempt is not None and attempt.pid:
                    yield (uid, container), attempt.pid


def _tree(pid: int) -> list[psutil.Process]:
    """A container's processes: its own, and those that came by exec, which the shim's other
    children run."""
    try:
        first = psutil.Process(pid)
        found = [first, *first.children(recursive=True)]
        shim = first.parent()
        if shim is not None and shim.pid not in (1, os.getpid()):  # else it has just been killed
            for relay in shim.children():
                found += relay.children(recursive=True) if relay.pid != pid else ()
    except psutil.Error:
        return []
    return found


def usage_between(before: UsageSample, after: UsageSample, now: datetime) -> Usage:
    """The usage from one look to the next. A process that began in between counts from zero."""
    window = after.at - before.at
    busy = dict.fromkeys(after.memory, 0.0)
    for key, (place, ran) in after.seconds.items():
        _, earlier = before.seconds.get(key, (place, 0.0))
        busy[place] += max(0.0, ran - earlier)
    pods: dict[str, dict[str, Consumption]] = {}
    for (uid, container), held in after.memory.items():
        cores = busy[uid, container] / window
        pods.setdefault(uid, {})[container] = Consumption(cores, held)
    return Usage(now, window, pods)
