"""Why a class does not fit: what it lacks, and which filter removed how many nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler.placement import filters
from muster.scheduler.placement.demand import ClassDemand, ClassShortage
from muster.scheduler.placement.node_rules import matches_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.pod_class import PodClass, Vector
    from muster.scheduler.cluster.snapshot import Snapshot

_MAX_SELECTOR = 80
"""Characters of a node selector in a sentence."""


def by_body(
    wants: Sequence[ClassDemand], counts: Sequence[int]
) -> Iterable[tuple[ClassDemand, int]]:
    """Wants with their counts; wants that differ by labels only are joined.

    People know members by role, and not by the labels that some selector happens to tell apart.
    """
    joined: dict[tuple[str, bytes], tuple[ClassDemand, int]] = {}
    for want, n in zip(wants, counts, strict=True):
        key = (want.role, want.cls.body)
        first, before = joined.get(key, (replace(want, pods=()), 0))
        joined[key] = (replace(first, pods=(*first.pods, *want.pods)), before + n)
    return joined.values()


def shortage(
    snapshot: Snapshot, want: ClassDemand, wanted: int, fits: int, closed: Mask | None = None
) -> ClassShortage:
    """Why the rest of a class does not fit, while the part that fits is in place.

    With `closed` nodes, which are outside the domain that is explained, the numbers are those of
    the other nodes. How much all nodes could hold says nothing then.
    """
    cls, lacking = want.cls, wanted - fits
    mask = filters.static_mask(snapshot, cls)
    mask = mask if closed is None else mask & ~closed
    lacks = {}
    for name, each in cls.requests.items():
        free = np.maximum(snapshot.nodes.free[snapshot.classes.resources[name]][mask], 0)
        usable = int(np.minimum(free // each, lacking).sum())
        if usable < lacking:
            lacks[name] = each * (lacking - usable)
    ever = bool(filters.fits_if_empty(snapshot, cls).any())
    largest = {} if ever else _largest(snapshot, cls, mask)
    whole = ever and closed is None
    capacity = _capacity(snapshot, cls, mask, wanted) if whole else {}
    room = int(room_if_empty(snapshot, cls).sum()) if whole else wanted
    most = room if room < wanted else None
    # The largest node tells more than the number of nodes that are too small, and the capacity
    # more than the number of nodes that are full.
    hidden = filters.TOO_SMALL if largest else filters.FULL if most is not None else ""
    removed = [row for row in _removed(snapshot, cls, closed) if row[0] != hidden]
    return ClassShortage(want, wanted, fits, lacks, tuple(removed), ever, largest, capacity, most)


def _capacity(snapshot: Snapshot, cls: PodClass, mask: Mask, wanted: int) -> dict[str, int]:
    """The resources of which the nodes, if all were empty, had less than the pods request."""
    columns, allocatable = snapshot.classes.resources, snapshot.nodes.allocatable
    total = {name: int(allocatable[columns[name]][mask].sum()) for name in cls.requests}
    return {name: n for name, n in total.items() if n < cls.requests[name] * wanted}


def beyond_capacity(
    snapshot: Snapshot, wants: Sequence[ClassDemand], counts: Sequence[int]
) -> dict[str, tuple[int, int]]:
    """The resources of which the pods together request more than all their nodes have."""
    mask = np.zeros(len(snapshot.nodes), np.bool_)
    requested: Counter[str] = Counter()
    for want, n in zip(wants, counts, strict=True):
        mask |= filters.static_mask(snapshot, want.cls)
        for name, each in want.cls.requests.items():
            requested[name] += each * n
    columns, allocatable = snapshot.classes.resources, snapshot.nodes.allocatable
    total = {name: int(allocatable[columns[name]][mask].sum()) for name in requested}
    return {name: (n, total[name]) for name, n in requested.items() if n > total[name]}


def room_if_empty(snapshot: Snapshot, cls: PodClass) -> Vector:
    """How many pods of the class each node could hold if it were empty."""
    room = snapshot.nodes.allocatable[cls.columns] // cls.amounts[:, None]
    vector: Vector = room.min(axis=0) * filters.static_mask(snapshot, cls)
    return vector


def _largest(snapshot: Snapshot, cls: PodClass, mask: Mask) -> dict[str, int]:
    """The resources of which no node has enough for one pod, and the most that a node has."""
    if not mask.any():
        return {}
    columns, allocatable = snapshot.classes.resources, snapshot.nodes.allocatable
    most = {name: int(allocatable[columns[name]][mask].max()) for name in cls.requests}
    return {name: n for name, n in most.items() if n < cls.requests[name]}


def _removed(snapshot: Snapshot, cls: PodClass, closed: Mask | None) -> Iterator[tuple[str, int]]:
    left = np.ones(len(snapshot.nodes), np.bool_) if closed is None else ~closed
    for item in filters.FILTERS:
        passing = left & item.mask(snapshot, cls)
        gone = int(left.sum() - passing.sum())
        if gone:
            yield _words(item, cls), gone
        left = passing


def _words(item: filters.Filter, cls: PodClass) -> str:
    """The words of a filter; those of the node selector name it, in bounds."""
    labels = ",".join(f"{key}={value}" for key, value in cls.spec.node_selector.items())
    if item.mask is not matches_selector or not labels:
        return item.says
    return f"{item.says} {labels if len(labels) <= _MAX_SELECTOR else f'{labels[:_MAX_SELECTOR]}…'}"
