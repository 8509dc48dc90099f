"""Why a gang does not fit: what its classes lack, and which filter removed how many nodes.

For a gang that needs one domain: the domain that lacks the least, and what is missing there.

Kept apart because it runs only for gangs that were not placed, and whoever reads a reason looks for
its numbers here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kubekit.errors import nearest
from muster.scheduler.placement import domain_search, filters
from muster.scheduler.placement.demand import ClassDemand, ClassShortage, DomainShortage
from muster.scheduler.placement.node_rules import matches_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from muster.contract.gang import Topology
    from muster.scheduler.cluster.domains import Division
    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.cluster.snapshot import Snapshot, Trial
    from muster.scheduler.placement.demand import Demand


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
        free = np.maximum(snapshot.nodes.free[snapshot.classes.column(name)][mask], 0)
        usable = int(np.minimum(free // each, lacking).sum())
        if usable < lacking:
            lacks[name] = each * (lacking - usable)
    ever = bool(filters.fits_if_empty(snapshot, cls).any())
    largest = {} if ever else _largest(snapshot, cls, mask)
    whole = ever and closed is None
    capacity = _capacity(snapshot, cls, mask, wanted) if whole else {}
    room = int(filters.room_if_empty(snapshot, cls).sum()) if whole else wanted
    most = room if room < wanted else None
    # The largest node tells more than the number of nodes that are too small, and the capacity
    # more than the number of nodes that are full.
    hidden = filters.TOO_SMALL if largest else filters.FULL if most is not None else ""
    removed = [row for row in _removed(snapshot, cls, closed) if row[0] != hidden]
    return ClassShortage(want, wanted, fits, lacks, tuple(removed), ever, largest, capacity, most)


def _capacity(snapshot: Snapshot, cls: PodClass, mask: Mask, wanted: int) -> dict[str, int]:
    """The resources of which the nodes, if all were empty, had less than the pods request."""
    column, allocatable = snapshot.classes.column, snapshot.nodes.allocatable
    total = {name: int(allocatable[column(name)][mask].sum()) for name in cls.requests}
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
    column, allocatable = snapshot.classes.column, snapshot.nodes.allocatable
    total = {name: int(allocatable[column(name)][mask].sum()) for name in requested}
    return {name: (n, total[name]) for name, n in requested.items() if n > total[name]}


def _largest(snapshot: Snapshot, cls: PodClass, mask: Mask) -> dict[str, int]:
    """The resources of which no node has enough for one pod, and the most that a node has."""
    if not mask.any():
        return {}
    column, allocatable = snapshot.classes.column, snapshot.nodes.allocatable
    most = {name: int(allocatable[column(name)][mask].max()) for name in cls.requests}
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


# -- one domain ------------------------------------------------------------------------------------


def domain_shortage(trial: Trial, demand: Demand) -> tuple[DomainShortage, Demand | None]:
    """The domain that lacks the least, and the demand within it; None without a domain."""
    assert demand.domain is not None
    snapshot, topology = trial.snapshot, demand.domain.topology
    levels = domain_search.required_levels(snapshot, topology)
    result = DomainShortage(topology)
    if demand.domain.members:
        return _beside_members(snapshot, demand, levels)
    options = [rooms for level in levels for rooms in domain_search.rooms_of(trial, demand, level)]
    best = domain_search.best_domain(options)
    if best is None:
        labels, tier = _missing_labels(snapshot, topology), _missing_tier(snapshot, topology)
        return replace(result, missing_labels=labels, missing_tier=tier), None
    division, code = best
    named = replace(
        result, best=division.names[code], largest=_largest_domain(snapshot, demand, levels)
    )
    return named, domain_search.inside(demand, division, code)


def _missing_labels(snapshot: Snapshot, topology: Topology) -> tuple[tuple[str, str], ...]:
    """The required labels that no node has, each with the most similar label of a node."""
    nodes = snapshot.nodes
    missing = [label for label in topology.required if not nodes.has_label(label)]
    known = sorted({key for node in nodes.nodes for key in node.metadata.labels} if missing else ())
    return tuple((label, _similar_label(label, known)) for label in missing)


def _similar_label(label: str, known: Sequence[str]) -> str:
    # A label may be given without its prefix: `rack` for `example.com/rack`.
    by_name = {key.rpartition("/")[2]: key for key in reversed(known)}
    name = label.rpartition("/")[2]
    return by_name.get(name) or nearest(label, known) or by_name.get(nearest(name, by_name), "")


def _missing_tier(snapshot: Snapshot, topology: Topology) -> tuple[str, str] | None:
    """The required tier that no HyperNode names, with the most similar name."""
    tiers, known = topology.tiers, snapshot.domains.tier_names()
    if tiers is None or not tiers.required or tiers.highest_name in ("", *known):
        return None
    return tiers.highest_name, nearest(tiers.highest_name, known)


def _beside_members(
    snapshot: Snapshot, demand: Demand, levels: Sequence[Sequence[Division]]
) -> tuple[DomainShortage, Demand | None]:
    """The one domain of the members, or the domains that they are scattered over."""
    assert demand.domain is not None
    result = DomainShortage(demand.domain.topology)
    known_rows = domain_search.member_rows(snapshot, demand.domain)
    rows = set(snapshot.nodes.rows_of(demand.domain.members))
    for division in (division for level in reversed(levels) for division in level):
        code = domain_search.code_of(division, known_rows or set())
        if code:
            name = division.names[code]
            named = replace(result, best=name, members_in=(name,))
            return named, domain_search.inside(demand, division, code)
    divisions = levels[-1] if levels else ()
    names = {next((d.names[d.codes[row]] for d in divisions if d.codes[row]), None) for row in rows}
    known: list[str | None] = sorted(name for name in names if name is not None)
    outside = [None] if None in names or known_rows is None else []
    return replace(result, members_in=(*known, *outside)), None


def _largest_domain(
    snapshot: Snapshot, demand: Demand, levels: Sequence[Sequence[Division]]
) -> tuple[str, int] | None:
    """The domain that would hold the most if all nodes were empty, if these are too few."""
    counts = Counter(want.cls.body for want in demand.wants)
    if len(counts) != 1 or demand.need > sum(len(want.pods) for want in demand.wants):
        return None
    room = filters.room_if_empty(snapshot, demand.wants[0].cls)
    best: tuple[int, str] = (-1, "")
    for division in (division for level in levels for division in level):
        totals = np.bincount(division.codes, room, len(division.names))[1:]
        if len(totals):
            most = int(totals.max())
            names = [division.names[i + 1] for i in np.flatnonzero(totals == most)]
            best = max(best, (most, min(names)), key=lambda row: row[0])
    return (best[1], best[0]) if 0 <= best[0] < demand.need else None
