"""A gang in one domain: a rack, a zone, one of Volcano's HyperNodes.

A domain is searched by closing all other nodes: the demand is narrowed, and `place` places it as it
places any other. `narrowed` yields these demands, the best first. Levels go from narrow to wide (a
rack of a zone, then the zone; HyperNodes of tier 1, then of tier 2). Within a level the fullest
domain with enough room goes first, so that empty domains stay whole for large gangs; ties go by
name. A gang that has members already is placed in their domain only. The last level of a gang that
only prefers its domains is the whole cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from muster.contract.gang import Topology
from muster.scheduler.placement import filters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from muster.contract.gang import HyperNodeTiers
    from muster.scheduler.cluster.domains import Division, NodeDomains
    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.pod_class import Vector
    from muster.scheduler.cluster.snapshot import Snapshot, Trial
    from muster.scheduler.placement.demand import Demand, DomainDemand, Plan

Floats = NDArray[np.float64]
Level: TypeAlias = "Sequence[Division] | None"
"""Divisions of the nodes, in one of which the gang is placed; None stands for the whole cluster."""
MAX_TRIES = 6
"""Domains that are tried for a gang that need not stay in one: each is a whole trial."""


@dataclass(frozen=True)
class Rooms:
    """The room of every domain of a division."""

    division: Division
    members: Floats
    """How many of the wanted pods fit, class by class, up to their number."""
    copies: Floats
    """How many pods of the classes fit in all: the fullest domain has the fewest."""
    enough: Mask
    """Whether the needed pods may fit: each class and role has enough room by itself."""


# -- levels ----------------------------------------------------------------------------------------


def _levels(snapshot: Snapshot, topology: Topology) -> Iterator[Level]:
    """The levels on which a domain may be found, the narrowest first."""
    wishes = topology.preferred
    label_sets = [(*topology.required, *wishes[:n]) for n in range(len(wishes), -1, -1)]
    for tier in _tiers(snapshot, topology):
        for labels in label_sets:
            if not labels:
                yield tier
                continue
            by_labels = snapshot.domains.by_labels(labels)
            if tier is None:
                yield (by_labels,)
            else:
                yield tuple(snapshot.domains.intersect(division, by_labels) for division in tier)


def _tiers(snapshot: Snapshot, topology: Topology) -> Iterator[Level]:
    """The levels of the allowed tiers; the whole cluster for a gang that needs no HyperNode."""
    tiers, domains = topology.tiers, snapshot.domains
    if tiers is None:
        yield None
        return
    for tier in domains.tiers():
        # A preference is for the lowest tier that has room, however high that is.
        if not tiers.required or _is_allowed(tier, tiers, domains):
            yield domains.by_tier(tier)
    if not tiers.required:
        yield None


def _is_allowed(tier: int, tiers: HyperNodeTiers, domains: NodeDomains) -> bool:
    if not tiers.highest_name:
        return tiers.highest is None or tier <= tiers.highest
    highest = domains.tier_named(tiers.highest_name)
    return highest is not None and tier <= highest


def required_levels(snapshot: Snapshot, topology: Topology) -> list[Sequence[Division]]:
    """The levels without preferences; none if the gang requires no domain."""
    tiers = topology.tiers if topology.tiers is not None and topology.tiers.required else None
    required = Topology(topology.required, tiers=tiers)
    return [level for level in _levels(snapshot, required) if level is not None]


# -- the search ------------------------------------------------------------------------------------


def narrowed(trial: Trial, demand: Demand) -> Iterator[Demand]:
    """The demand within each domain that may hold it, in the order in which they are tried."""
    assert demand.domain is not None
    for level in _levels(trial.snapshot, demand.domain.topology):
        if level is None:
            yield replace(demand, domain=None)
            continue
        for division, code in _fitting(trial, demand, level):
            yield inside(demand, division, code)


def surplus_steps(trial: Trial, demand: Demand) -> Iterator[Demand]:
    """The demand within ever wider domains around the members, for as many pods as fit.

    Without members, the first step is the domain where the most pods fit. The caller places pods
    between two steps: they count as members.
    """
    assert demand.domain is not None
    for level in _levels(trial.snapshot, demand.domain.topology):
        if level is None:
            yield replace(demand, domain=None)
        elif _rows_in_trial(trial, demand.domain) == set():
            best = best_domain(rooms_of(trial, demand, level))
            if best is not None:
                yield inside(demand, *best)
        else:
            for division in level:  # HyperNodes may overlap: the members may be in several
                code = code_of(division, _rows_in_trial(trial, demand.domain) or set())
                if code:
                    yield inside(demand, division, code)


def _rows_in_trial(trial: Trial, domain: DomainDemand) -> set[int] | None:
    """The rows of the members' nodes, also of members placed in this trial."""
    rows = member_rows(trial.snapshot, domain)
    return None if rows is None else rows | trial.rows


def around(snapshot: Snapshot, demand: Demand, plan: Plan) -> Demand:
    """The demand within the required domain of a plan."""
    assert demand.domain is not None
    rows = set(snapshot.nodes.rows_of(placement.node for placement in plan.placements))
    for level in required_levels(snapshot, demand.domain.topology):
        for division in level:
            code = code_of(division, rows)
            if code:
                return inside(demand, division, code)
    return demand


def inside(demand: Demand, division: Division, code: int) -> Demand:
    outside = division.codes != code
    reserved = outside if demand.reserved is None else outside | demand.reserved
    return replace(demand, reserved=reserved, domain=None)


def _fitting(
    trial: Trial, demand: Demand, level: Sequence[Division]
) -> Iterator[tuple[Division, int]]:
    """The domains of a level that may hold the demand, the best first."""
    assert demand.domain is not None
    snapshot, domain = trial.snapshot, demand.domain
    rows = member_rows(snapshot, domain)
    if rows is None:
        return
    held = snapshot.nodes.rows_of(domain.held)
    ranked: list[tuple[bool, float, str, Division, int]] = []
    for rooms in rooms_of(trial, demand, level):
        division = rooms.division
        codes = np.flatnonzero(rooms.enough)
        if rows:
            codes = codes[codes == (code_of(division, rows) or -1)]
        other = ~np.isin(codes, division.codes[held]) if held else np.zeros(len(codes), np.bool_)
        order = codes[np.lexsort((division.ranks[codes], rooms.copies[codes], other))]
        if len(level) == 1:  # the first is nearly always the last: rank no more than needed
            yield from ((division, int(code)) for code in order)
            return
        names, copies = division.names, rooms.copies
        ranked += [
            (bool(away), float(copies[code]), names[code], division, int(code))
            for away, code in zip(other, codes, strict=True)
        ]
    for *_, division, code in sorted(ranked, key=lambda row: row[:3]):
        yield division, code


def member_rows(snapshot: Snapshot, domain: DomainDemand) -> set[int] | None:
    """The rows of the members' nodes; None if nodes are gone, so that these tell no domain.

    A node that is gone may come back with its pods, so its domain is not forgotten: the gang waits
    until the pods are gone too. One node of a rack tells the rack. But HyperNodes may overlap, and
    the nodes that are left may be in another one than the node that is gone.
    """
    rows = set(snapshot.nodes.rows_of(domain.members))
    may_overlap = domain.topology.tiers is not None and domain.topology.tiers.required
    some_are_gone = len(rows) < len(domain.members)
    return None if some_are_gone and (may_overlap or not rows) else rows


def code_of(division: Division, rows: set[int]) -> int:
    """The one domain of these rows; 0 if there is none."""
    codes = {int(division.codes[row]) for row in rows}
    return codes.pop() if len(codes) == 1 else 0


def rooms_of(trial: Trial, demand: Demand, level: Sequence[Division]) -> list[Rooms]:
    vectors = [filters.free_copies(trial.snapshot, w.cls, demand.reserved) for w in demand.wants]
    return [_rooms(demand, division, vectors) for division in level]


def _rooms(demand: Demand, division: Division, vectors: Sequence[Vector]) -> Rooms:
    size = len(division.names)
    copies, members = np.zeros(size), np.zeros(size)
    by_role: dict[str, Floats] = {}
    for want, vector in zip(demand.wants, vectors, strict=True):
        room = np.bincount(division.codes, vector, size)
        fits = np.minimum(room, len(want.pods))
        copies, members = copies + room, members + fits
        if demand.roles:
            by_role[want.role] = by_role.get(want.role, 0.0) + fits
    enough = members >= demand.need
    for role, n in demand.roles.items():
        enough &= by_role[role] >= n if role in by_role else n <= 0
    enough[0] = False
    return Rooms(division, members, copies, enough)


def best_domain(options: Sequence[Rooms]) -> tuple[Division, int] | None:
    """The domain with room for the most members; the first by name among equals."""
    found: tuple[float, str, Division, int] | None = None
    for rooms in options:
        codes = np.arange(1, len(rooms.members))
        if not len(codes):
            continue
        order = np.lexsort((rooms.division.ranks[codes], -rooms.members[codes]))
        code = int(codes[order[0]])
        row = (-float(rooms.members[code]), rooms.division.names[code], rooms.division, code)
        found = row if found is None else min(found, row, key=lambda row: row[:2])
    return found[2:] if found is not None else None


# -- gangs that are not bound to a domain ----------------------------------------------------------


def by_affinity(trial: Trial, demand: Demand, counts: Sequence[int]) -> Iterator[Demand]:
    """The demand within one domain after another, for gangs with affinity to their own pods.

    The first pod decides the domain for all, and the best node for it may be in a domain that is
    too small. Domains that hold every class by itself are tried, the tightest first.
    """
    keys = {term.topology for want in demand.wants for term in want.cls.affinity}
    return within(trial, demand, counts, min(keys)) if keys else iter(())


def within(trial: Trial, demand: Demand, counts: Sequence[int], key: str) -> Iterator[Demand]:
    """The demand within a few domains of a label that hold every class by itself."""
    column = trial.snapshot.nodes.column(key)
    holds = np.ones(len(column.values), np.bool_)
    total = np.zeros(len(column.values), np.int64)
    for want, n in zip(demand.wants, counts, strict=True):
        copies = np.minimum(filters.free_copies(trial.snapshot, want.cls, demand.reserved), n)
        room = np.bincount(column.codes, copies, len(column.values)).astype(np.int64)
        holds &= room >= n
        total += room
    holds[0] = False
    domains = sorted(np.flatnonzero(holds), key=lambda d: (total[d], str(column.values[d])))
    for domain in domains[:MAX_TRIES]:
        outside = column.codes != domain
        reserved = outside if demand.reserved is None else outside | demand.reserved
        yield replace(demand, reserved=reserved)
