"""The domain of a gang: where its members are, so that later members join them.

Nothing is remembered: the nodes of the members tell the domain, also after a restart of the
scheduler, and also if the group's topology changes while members run. Nobody is moved then; only
the members to come are placed by the new topology.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from muster.scheduler.placement.demand import DomainDemand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.contract.gang import Topology
    from muster.scheduler.cluster.snapshot import Placement, Slot
    from muster.scheduler.decisions.decision import GangView


def domain_demand(view: GangView, topology: Topology, held: Iterable[Slot]) -> DomainDemand:
    """The domain for the members to come, given the members that have or get a node."""
    assumed = view.state.assumed
    nodes = {pod.spec.node_name or assumed.get(pod.metadata.uid, "") for pod in view.members.bound}
    held_nodes = {slot.node for slot in held}
    return DomainDemand(topology, tuple(sorted(nodes - {""})), tuple(sorted(held_nodes)))


def with_placements(
    domain: DomainDemand | None, placements: Iterable[Placement]
) -> DomainDemand | None:
    """The domain after more members were placed."""
    if domain is None:
        return None
    nodes = {*domain.members, *(placement.node for placement in placements)}
    return replace(domain, members=tuple(sorted(nodes)))
