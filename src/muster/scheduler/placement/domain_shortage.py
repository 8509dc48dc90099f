"""Why no domain has room for a gang: the domain that lacks the least, and what is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kubekit.errors import nearest
from muster.scheduler.placement import diagnosis, domain_search
from muster.scheduler.placement.demand import DomainShortage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.contract.gang import Topology
    from muster.scheduler.cluster.domains import Division
    from muster.scheduler.cluster.snapshot import Snapshot, Trial
    from muster.scheduler.placement.demand import Demand


def shortage(trial: Trial, demand: Demand) -> tuple[DomainShortage, Demand | None]:
    """The domain that lacks the least, and the demand within it; None if there is no domain."""
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
    named = replace(result, best=division.names[code], largest=_largest(snapshot, demand, levels))
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


def _largest(
    snapshot: Snapshot, demand: Demand, levels: Sequence[Sequence[Division]]
) -> tuple[str, int] | None:
    """The domain that would hold the most if all nodes were empty, if these are too few."""
    counts = Counter(want.cls.body for want in demand.wants)
    if len(counts) != 1 or demand.need > sum(len(want.pods) for want in demand.wants):
        return None
    room = diagnosis.room_if_empty(snapshot, demand.wants[0].cls)
    best: tuple[int, str] = (-1, "")
    for division in (division for level in levels for division in level):
        totals = np.bincount(division.codes, room, len(division.names))[1:]
        if len(totals):
            most = int(totals.max())
            names = [division.names[i + 1] for i in np.flatnonzero(totals == most)]
            best = max(best, (most, min(names)), key=lambda row: row[0])
    return (best[1], best[0]) if 0 <= best[0] < demand.need else None
