"""Counts of pods whose terms and ports nobody uses any more are dropped."""

from __future__ import annotations

from typing import Any

from muster.scheduler.cluster import pod_counts
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests.muster.scheduler.builders import node, pod


def job_pod(i: int) -> Any:
    term = {"labelSelector": {"matchLabels": {"job": f"j{i}"}}, "topologyKey": "zone"}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    ports = [{"containerPort": 9, "hostPort": 20_000 + i}]
    spec = {
        "nodeName": "n",
        "affinity": {"podAntiAffinity": rule},
        "containers": [{"name": "c", "ports": ports}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"c{i}"}}],
    }
    return pod(f"p{i}", labels={"job": f"j{i}"}, spec=spec)


def test_counts_of_pods_that_are_gone_are_dropped() -> None:
    state = State(Settings())
    state.node_changed(None, node("n"))
    counts = state.snapshot.pod_counts
    first = job_pod(0)
    state.pod_changed(None, first)
    state.snapshot.settle()
    for i in range(1, 3 * pod_counts.MAX_COUNTS):
        state.pod_changed(None, new := job_pod(i))
        state.pod_changed(new, None)

    assert len(counts.forbidding) <= pod_counts.MAX_COUNTS
    assert [len(matched) for matched in (counts.claims, counts._ports)] == [1, 1]
    slot = state.snapshot.slots[first.metadata.uid]
    (forbids,) = counts.forbidding.matching(slot.cls)
    assert forbids.counts.tolist() == [1]


def test_counts_beyond_the_bound_are_kept_while_their_pods_run() -> None:
    state = State(Settings())
    state.node_changed(None, node("n"))
    state.snapshot.settle()
    for i in range(pod_counts.MAX_COUNTS + 10):
        state.pod_changed(None, job_pod(i))

    forbidding = state.snapshot.pod_counts.forbidding
    assert len(forbidding) == pod_counts.MAX_COUNTS + 10
    assert all(pod_count.counts.tolist() == [1] for pod_count in forbidding.values())
