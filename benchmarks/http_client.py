"""The hand-written HTTP/1.1 client against aiohttp, in the scheduler and in the operator.

Both sides are the same program on the same real kube-apiserver; only the transport differs. The
processor time of the process is the figure to judge by: on a busy machine, elapsed time depends on
other processes. `python -m benchmarks.http_client [ROUNDS [NODES [GANGS [JOBS]]]]` prints the
table.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import psutil

from benchmarks import operator_backlog, scheduler_backlog
from benchmarks.ratio import Ratio

if TYPE_CHECKING:
    from tests.controlplane.control_plane import ControlPlane

MODULES = {"muster": "muster", "aiohttp": "benchmarks.with_aiohttp"}
FIGURES = (
    ("processor time", "s", "<= 0.91"),  # The hand-written client stays if it saves a tenth.
    ("time from start", "s", "<= 1.1"),
    ("memory", "MiB", "<= 1.0"),
)


class Cost(NamedTuple):
    """Processor time, memory and elapsed time of one run."""

    processor_seconds: float
    seconds: float
    mebibytes: float


def run() -> list[Ratio]:
    """The rows of `python -m benchmarks http_client`."""
    return measure()


def measure(rounds: int = 5, nodes: int = 500, gangs: int = 200, jobs: int = 500) -> list[Ratio]:
    return [*_scheduler(rounds, nodes, gangs), *_operator(rounds, jobs)]


def _scheduler(rounds: int, nodes: int, gangs: int) -> list[Ratio]:
    size = scheduler_backlog.Size(nodes, gangs)
    costs = []
    for number in range(rounds):
        drains = scheduler_backlog.measure(size, _order(number))
        costs.append(
            {
                name: Cost(
                    drain.processor_seconds, size.pods / drain.from_start, drain.memory / 2**20
                )
                for name, drain in drains.items()
            }
        )
    return _ratios(f"scheduler, {size.pods} pods of gangs on {nodes} nodes", costs)


def _operator(rounds: int, jobs: int) -> list[Ratio]:
    costs = []
    with operator_backlog.running_plane() as plane:
        for number in range(rounds):
            of_round = {}
            for name in _order(number):
                of_round[name] = _reconcile(plane, f"{name}-{number}", jobs, MODULES[name])
                print(f"operator, {name}: {of_round[name]}", flush=True)
            costs.append(of_round)
    return _ratios(f"operator, {jobs} TFJobs with a group for each", costs)


def _reconcile(plane: ControlPlane, namespace: str, jobs: int, module: str) -> Cost:
    operator_backlog.create_jobs(plane, namespace, jobs)
    start = time.perf_counter()
    with operator_backlog.running_operator(plane, namespace, module=module) as child:
        operator_backlog.wait_for_pods(plane, namespace, 3 * jobs, child)
        seconds = time.perf_counter() - start
        process = psutil.Process(child.pid)
        times = process.cpu_times()
        return Cost(times.user + times.system, seconds, process.memory_info().rss / 2**20)


def _order(number: int) -> tuple[str, str]:
    """The order of the sides: each is first in every other round."""
    return ("aiohttp", "muster") if number % 2 else ("muster", "aiohttp")


def _ratios(name: str, costs: list[dict[str, Cost]]) -> list[Ratio]:
    pairs = [(cost["muster"], cost["aiohttp"]) for cost in costs]
    return [
        Ratio(f"{name}: {figure}", [(ours[i], peer[i]) for ours, peer in pairs], unit, bar)
        for i, (figure, unit, bar) in enumerate(FIGURES)
    ]


if __name__ == "__main__":
    for ratio in measure(*map(int, sys.argv[1:])):
        print(ratio.row())
