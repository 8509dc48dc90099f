"""Measuring what containers' processes use."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from muster.local.node.machine.usage import SHORTEST, UsageMeter, UsageSample, usage_between
from muster.local.node.runtime.pod_records import Attempt, PodRecord, State

if TYPE_CHECKING:
    from muster.local.node.runtime.interface import Runtime

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = ("u", "a"), ("u", "b")


class OnePod:
    """A runtime that runs one pod: this very process."""

    def uids(self) -> list[str]:
        return ["u", "gone"]

    def read(self, uid: str) -> PodRecord:
        if uid == "gone":
            return PodRecord("gone")
        running = Attempt(0, State.RUNNING, pid=os.getpid())
        ended = Attempt(0, State.EXITED, pid=1)
        return PodRecord("u", containers={"a": (running,), "ended": (ended,)})


def test_cpu_is_time_run_over_time_passed_by_container() -> None:
    before = UsageSample(10.0, {(1, 0.0): (A, 5.0), (2, 0.0): (B, 1.0)}, {A: 100, B: 100})
    after = UsageSample(
        12.0, {(1, 0.0): (A, 6.0), (2, 0.0): (B, 1.0), (3, 11.0): (A, 0.5)}, {A: 300, B: 50}
    )

    usage = usage_between(before, after, NOW)

    assert (usage.at, usage.window) == (NOW, 2.0)
    assert (usage.pods["u"]["a"].cores, usage.pods["u"]["a"].memory) == (0.75, 300)
    assert (usage.pods["u"]["b"].cores, usage.pods["u"]["b"].memory) == (0.0, 50)


def test_a_number_used_again_is_another_process() -> None:
    before = UsageSample(0.0, {(1, 0.0): (A, 100.0)}, {A: 1})
    after = UsageSample(1.0, {(1, 0.5): (A, 0.25)}, {A: 1})

    assert usage_between(before, after, NOW).pods["u"]["a"].cores == 0.25


async def test_running_processes_are_measured_and_ended_ones_are_not() -> None:
    meter = UsageMeter(cast("Runtime", OnePod()))

    first = await meter.usage()
    ran = time.process_time()
    while time.process_time() < ran + 0.2:
        pass
    second = await meter.usage()

    assert first.window >= SHORTEST
    assert list(second.pods) == ["u"]
    assert list(second.pods["u"]) == ["a"]
    assert second.pods["u"]["a"].memory > 1 << 20
    assert second.pods["u"]["a"].cores * second.window > 0.15
