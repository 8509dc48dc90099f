"""Scheduling decisions in memory: from watch events to assumed binds, without an API server.

`python -m benchmarks.scheduler_decisions [NODES] [GANGS] [SIZE]` prints pods per second of
CPU time, for uniform gangs, for gangs coupled by anti-affinity and spread, and for gangs that must
stay in one rack. The measured time includes a pod's arrival (gang index, snapshot, class) and the
record of its bind.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import Any

from tests.muster.scheduler.builders import KIND_OF, node, pod, volcano_group

from benchmarks.ratio import Ratio
from muster.scheduler.decisions.decision import Bind
from muster.scheduler.decisions.gang_decision import consider
from muster.scheduler.settings import Settings
from muster.scheduler.state import State

ZONES = 10
RACK = "example.com/rack"
RACKED_NODES, RACKS = 2000, 125
KINDS = (("uniform", False, 1, 20_000.0), ("anti-affinity and spread", True, 10, 2_000.0))
"""The kind of gangs, whether their pods are coupled, the divisor of their number, the target."""


def coupled(name: str) -> dict[str, Any]:
    """No two of a gang on one node, and the gang even over the zones."""
    chosen = {"matchLabels": {"gang": name}}
    term = {"labelSelector": chosen, "topologyKey": "kubernetes.io/hostname"}
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": chosen,
            }
        ],
    }


def cluster(nodes: int) -> State:
    """Equal nodes of 8 GPUs in some zones."""
    state = State(Settings())
    for i in range(nodes):
        labels = {"zone": f"z{i % ZONES}", RACK: f"r{i % RACKS:03d}"}
        state.node_changed(None, node(f"node-{i:05d}", gpus=8, cpu="96", labels=labels))
    state.snapshot.settle()
    return state


def pods_per_second(
    nodes: int, gangs: int, size: int, *, bound: bool = False, racked: bool = False
) -> tuple[float, int]:
    """Decide a backlog; returns the rate and the number of pods placed.

    Pods of `bound` gangs are coupled with each other; `racked` gangs need one rack each.
    """
    state = cluster(nodes)
    marks = {"muster.dev/topology": RACK} if racked else {}
    backlog = []
    for g in range(gangs):
        name = f"gang-{g:05d}"
        spec = coupled(name) if bound else {}
        labels = {"gang": name} if bound else {}
        backlog.append(
            (
                volcano_group(name, size, created=g, annotations=marks),
                [
                    pod(f"{name}-{i}", gpus=1, group=name, spec=spec, labels=labels)
                    for i in range(size)
                ],
            )
        )
    gc.collect()
    gc.freeze()  # As the daemon does.
    placed, started = 0, time.process_time()
    for group, members in backlog:
        state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
        for member in members:
            state.pod_changed(None, member)
    for key in state.due(0.0):
        for action in consider(state, key, 0.0).actions:
            if isinstance(action, Bind):
                placed += len(action.pairs)
    return placed / (time.process_time() - started), placed


def run(nodes: int = 5000, gangs: int = 500, size: int = 16, rounds: int = 5) -> list[Ratio]:
    """The rows of `make bench`; the peer of each round is the target."""
    ratios = []
    for name, bound, share, target in KINDS:
        rates = [
            (pods_per_second(nodes, gangs // share, size, bound=bound)[0], target)
            for _ in range(rounds)
        ]
        ratios.append(Ratio(f"decisions in memory, {name}, vs asked", rates, "pods/s", ">= 1"))
    pairs = [
        (
            pods_per_second(RACKED_NODES, gangs, size, racked=True)[0],
            pods_per_second(RACKED_NODES, gangs, size)[0],
        )
        for _ in range(rounds)
    ]
    what = f"{RACKED_NODES:,} nodes in {RACKS} racks, gangs in one rack vs anywhere"
    return [*ratios, Ratio(f"decisions in memory, {what}", pairs, "pods/s", ">= 0.7")]


def main() -> None:
    nodes, gangs, size = [*map(int, sys.argv[1:4]), *(5000, 500, 16)[len(sys.argv) - 1 :]]
    for name, bound, share, _ in KINDS:
        rate, placed = pods_per_second(nodes, gangs // share, size, bound=bound)
        print(f"{name}: {rate:,.0f} pods/s ({placed} pods, {nodes} nodes)")
    for name, racked in (("anywhere", False), ("in one rack", True)):
        rate, placed = pods_per_second(RACKED_NODES, gangs, size, racked=racked)
        print(f"{name}: {rate:,.0f} pods/s ({placed} pods, {RACKED_NODES} nodes)")


if __name__ == "__main__":
    main()
