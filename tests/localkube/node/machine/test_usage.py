"""Measuring the CPU, memory and GPUs of containers."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from localkube.node.machine import usage
from localkube.node.machine.gpus import GpuUse
from localkube.node.machine.usage import (
    MIN_WINDOW,
    ProcessTable,
    UsageMeter,
    UsageSample,
    usage_between,
)
from localkube.node.runtime.pod_records import Attempt, PodRecord, PodRecords, State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = ("u", "a"), ("u", "b")


class OnePod(PodRecords):
    """The records of one running pod, whose process is this test."""

    def uids(self) -> list[str]:
        return ["u", "gone"]

    def read(self, uid: str) -> PodRecord:
        if uid == "gone":
            return PodRecord("gone")
        running = Attempt(0, State.RUNNING, pid=os.getpid())
        ended = Attempt(0, State.EXITED, pid=1)
        return PodRecord("u", containers={"a": (running,), "ended": (ended,)})


def test_cpu_use_is_cpu_time_per_elapsed_time_of_each_container() -> None:
    before = UsageSample(10.0, {(1, 0.0): (A, 5.0), (2, 0.0): (B, 1.0)}, {A: 100, B: 100})
    after = UsageSample(
        12.0, {(1, 0.0): (A, 6.0), (2, 0.0): (B, 1.0), (3, 11.0): (A, 0.5)}, {A: 300, B: 50}
    )

    used = usage_between(before, after, NOW)

    assert (used.at, used.window) == (NOW, 2.0)
    assert (used.pods["u"]["a"].cores, used.pods["u"]["a"].memory) == (0.75, 300)
    assert (used.pods["u"]["b"].cores, used.pods["u"]["b"].memory) == (0.0, 50)


def test_a_reused_pid_is_another_process() -> None:
    before = UsageSample(0.0, {(1, 0.0): (A, 100.0)}, {A: 1})
    after = UsageSample(1.0, {(1, 0.5): (A, 0.25)}, {A: 1})

    assert usage_between(before, after, NOW).pods["u"]["a"].cores == 0.25


def test_gpu_use_is_that_of_the_last_sample() -> None:
    before = UsageSample(0.0, {}, {A: 1, B: 1}, {A: GpuUse(2.0, 9)})
    after = UsageSample(1.0, {}, {A: 1, B: 1}, {A: GpuUse(1.5, 3 << 30)})

    used = usage_between(before, after, NOW).pods["u"]

    assert (used["a"].gpus, used["a"].gpu_memory) == (1.5, 3 << 30)
    assert (used["b"].gpus, used["b"].gpu_memory) == (None, 0)
    total = used["a"] + used["b"]
    assert (total.gpus, total.memory, total.gpu_memory) == (1.5, 2, 3 << 30)


async def test_a_container_uses_the_gpus_that_are_allocated_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "gpus").write_text(json.dumps({"a": [0, 2], "ended": [1]}))
    loads = {0: GpuUse(0.25, 100), 1: GpuUse(1.0, 100), 2: GpuUse(0.5, 11)}
    monkeypatch.setattr(usage, "gpu_use", lambda numbers: {n: loads[n] for n in numbers})

    used = await UsageMeter(OnePod(tmp_path)).usage()

    assert (used.pods["u"]["a"].gpus, used.pods["u"]["a"].gpu_memory) == (0.75, 111)


class ManyPods(OnePod):
    """The records of many running pods."""

    def uids(self) -> list[str]:
        return [f"u{number}" for number in range(20)]


async def test_the_processes_of_the_machine_are_listed_once_per_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[object] = []
    listdir = os.listdir

    def counted(path: str | bytes = ".") -> list[Any]:
        if os.fsdecode(path) == "/proc":
            listed.append(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", counted)
    used = await UsageMeter(ManyPods(tmp_path)).usage()

    assert len(used.pods) == 20
    assert len(listed) == 2  # a first use takes two samples


class FakeProcess(NamedTuple):
    pid: int
    parent: int

    def ppid(self) -> int:
        if self.parent < 0:
            raise psutil.NoSuchProcess(self.pid)
        return self.parent


@pytest.mark.parametrize(
    ("pid", "expected"),
    [
        (11, [11, 14, 15, 13]),  # its descendants, and those of the relay of an exec
        (21, [21, 22]),  # its shim was killed: siblings are not its own
        (99, []),
        (31, []),
    ],
)
def test_the_processes_of_a_container_are_those_below_its_shim(
    pid: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(10, 5), (11, 10), (12, 10), (13, 12), (14, 11), (15, 14)]
    rows += [(21, 1), (22, 21), (23, 1), (24, 23), (31, -1)]
    table = [FakeProcess(*row) for row in rows]
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(table))

    found = [process.pid for process in ProcessTable().of_container(pid)]

    assert found == expected


async def test_only_running_processes_are_measured(tmp_path: Path) -> None:
    meter = UsageMeter(OnePod(tmp_path))

    first = await meter.usage()
    start = time.process_time()
    while time.process_time() < start + 0.2:
        pass
    second = await meter.usage()

    assert first.window >= MIN_WINDOW
    assert list(second.pods) == ["u"]
    assert list(second.pods["u"]) == ["a"]
    assert second.pods["u"]["a"].memory > 1 << 20
    assert second.pods["u"]["a"].cores * second.window > 0.15
