"""Divisions of the nodes by labels: what they cost if gangs name any labels they like."""

from __future__ import annotations

import tracemalloc

from muster.scheduler.cluster.snapshot import Snapshot
from tests.muster.scheduler.builders import node


def test_labels_that_no_node_has_take_no_memory() -> None:
    """Any user can name labels in an annotation."""
    snapshot = Snapshot()
    for i in range(1000):
        snapshot.nodes.put(node(f"n{i}", labels={"rack": f"r{i % 10}"}))
    snapshot.settle()
    snapshot.domains.by_labels(("rack",))
    tracemalloc.start()
    for i in range(2000):
        division = snapshot.domains.by_labels(("rack", f"label-{i}"))
        assert not division.codes.any()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 4_000_000
    assert len(snapshot.domains.by_labels(("rack",)).names) == 11
