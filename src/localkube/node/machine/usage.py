"""The CPU, memory and GPUs that each container uses now, for `kubectl top` and `arena top`.

It is measured on demand, by two samples of the processes at least a second apart: without requests
it costs nothing. GPU use is that of the whole device: containers do not share a GPU.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import psutil

from localkube.node.machine.gpus import GpuUse, allocated_gpus, gpu_use
from localkube.node_interface import Consumption, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from localkube.node.runtime.pod_records import PodRecords

MIN_WINDOW = 1.0
"""Seconds between two samples; over a shorter time the kernel's clock ticks are too coarse."""
MAX_WINDOW = 30.0
"""Seconds after which an old sample is not used any more."""

ContainerKey = tuple[str, str]
"""A pod's uid and a container's name."""


class UsageSample(NamedTuple):
    """One moment: CPU seconds by process, memory and GPU use by container."""

    at: float
    seconds: Mapping[tuple[int, float], tuple[ContainerKey, float]]
    memory: Mapping[ContainerKey, int]
    gpus: Mapping[ContainerKey, GpuUse] = MappingProxyType({})


class UsageMeter:
    """Measures the containers of all pods that have a record."""

    def __init__(self, records: PodRecords) -> None:
        self._records = records
        self._last: UsageSample | None = None
        self._lock = asyncio.Lock()

    async def usage(self) -> Usage:
        """The use since the last sample, or over a second."""
        async with self._lock:  # each measures from the sample of the one before
            before = self._last
            now = time.monotonic()
            if before is None or now - before.at > MAX_WINDOW:
                before = await asyncio.to_thread(self._sample)
            await asyncio.sleep(max(0.0, before.at + MIN_WINDOW - time.monotonic()))
            self._last = await asyncio.to_thread(self._sample)
            return usage_between(before, self._last, datetime.now(UTC))

    def _sample(self) -> UsageSample:
        seconds: dict[tuple[int, float], tuple[ContainerKey, float]] = {}
        memory: dict[ContainerKey, int] = {}
        table = ProcessTable()
        for container, pid in self._running():
            memory[container] = 0
            for process in table.of_container(pid):
                try:
                    with process.oneshot():
                        times = process.cpu_times()
                        memory[container] += process.memory_info().rss
                        key = (process.pid, process.create_time())  # PIDs are reused
                except psutil.Error:
                    continue  # it has just exited
                seconds[key] = (container, times.user + times.system)
        return UsageSample(time.monotonic(), seconds, memory, self._gpus(memory))

    def _gpus(self, containers: Iterable[ContainerKey]) -> dict[ContainerKey, GpuUse]:
        """The use of all GPUs of each container that has any."""
        pods = {uid: allocated_gpus(self._records, uid) for uid, _ in containers}
        numbers = {key: own for key in containers if (own := pods[key[0]].get(key[1]))}
        uses = gpu_use({number for own in numbers.values() for number in own})
        return {
            key: GpuUse(sum(use.load for use in used), sum(use.memory for use in used))
            for key, own in numbers.items()
            if (used := [uses[number] for number in own if number in uses])
        }

    def _running(self) -> Iterable[tuple[ContainerKey, int]]:
        for uid in self._records.uids():
            record = self._records.read(uid)
            for container in record.alive:
                attempt = record.last(container)
                if attempt is not None and attempt.pid:
                    yield (uid, container), attempt.pid


class ProcessTable:
    """The processes of this machine at one moment, by their parent.

    It is read once for all containers: psutil reads the whole table for the children of one.
    """

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}
        self._children: dict[int, list[psutil.Process]] = {}
        for process in psutil.process_iter():
            try:
                parent = process.ppid()
            except psutil.Error:
                continue  # it has just exited
            self._parents[process.pid] = parent
            self._children.setdefault(parent, []).append(process)

    def of_container(self, pid: int) -> Iterator[psutil.Process]:
        """The processes of a container whose first process has this PID, and those of exec.

        The processes of exec are grandchildren of the shim, the parent of the first process.
        """
        shim = self._parents.get(pid)
        if shim is None:
            return
        # The parent is init or the daemon if the shim was killed just now.
        orphaned = shim in (0, 1, os.getpid())
        for sibling in self._children[shim]:
            if sibling.pid == pid:
                yield sibling
            if sibling.pid == pid or not orphaned:
                yield from self._below(sibling.pid)

    def _below(self, pid: int) -> Iterator[psutil.Process]:
        waiting, seen = [pid], {pid}
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child.pid not in seen:  # PIDs are reused while the table is read
                    seen.add(child.pid)
                    waiting.append(child.pid)
                    yield child


def usage_between(before: UsageSample, after: UsageSample, now: datetime) -> Usage:
    """The use from one sample to the next. A process that started in between counts from zero."""
    window = after.at - before.at
    busy = dict.fromkeys(after.memory, 0.0)
    for process, (key, seconds) in after.seconds.items():
        _, earlier = before.seconds.get(process, (key, 0.0))
        busy[key] += max(0.0, seconds - earlier)
    pods: dict[str, dict[str, Consumption]] = {}
    for key, memory in after.memory.items():
        gpus, (uid, container) = after.gpus.get(key), key
        load, gpu_memory = (None, 0) if gpus is None else gpus
        used = Consumption(busy[key] / window, memory, load, gpu_memory)
        pods.setdefault(uid, {})[container] = used
    return Usage(now, window, pods)
