"""Where a class of pods may go by what nodes say of themselves: readiness, taints, labels, volumes.

Called by `filters`, which keeps the answers until a node changes, and by `scores`. Each function
takes the snapshot and a class and gives a mask over the nodes; the meaning of each field is
Kubernetes' own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.api.affinity import NodeSelectorTerm, SelectorRequirement, Toleration
from muster.api.selectors import integer
from muster.api.storage import ZONES
from muster.scheduler.cluster.nodes import forbids_scheduling

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.affinity import NodeSelector
    from muster.api.core import Taint
    from muster.api.storage import PersistentVolume, VolumeClaim
    from muster.scheduler.cluster.nodes import Mask, NodeTable
    from muster.scheduler.cluster.pod_class import PodClass, Vector
    from muster.scheduler.cluster.snapshot import Snapshot


def is_ready(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that are up."""
    return snapshot.nodes.ready


def tolerates_taints(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes all of whose taints are tolerated, a cordon among them."""
    mask: Mask = untolerated_taints(snapshot, cls, forbids_scheduling) == 0
    return mask


def untolerated_taints(snapshot: Snapshot, cls: PodClass, which: Callable[[Taint], bool]) -> Vector:
    """How many taints of that sort each node has that the class does not tolerate."""
    nodes, tolerations = snapshot.nodes, cls.spec.tolerations
    found = [
        sum(which(taint) and not tolerated(taint, tolerations) for taint in taints)
        for taints in nodes.taint_sets
    ]
    return np.array(found, np.int64)[nodes.taints]


def matches_selector(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that nodeSelector and required node affinity allow."""
    nodes, spec = snapshot.nodes, cls.spec
    mask = np.ones(len(nodes), np.bool_)
    for key, value in spec.node_selector.items():
        mask &= label_mask(nodes, SelectorRequirement(key, "In", (value,)))
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is not None and affinity.required is not None:
        mask &= _any_term(nodes, affinity.required)
    return mask


def reaches_volumes(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where every volume of the class can be reached, and every one it lacks can be had."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for claim in snapshot.volumes.known(cls.namespace, cls.claims):
        mask &= _claim_mask(snapshot, claim)
    return mask


def _claim_mask(snapshot: Snapshot, claim: VolumeClaim) -> Mask:
    volumes, nodes = snapshot.volumes, snapshot.nodes
    volume = volumes.volumes.get(claim.spec.volume_name)
    if volume is not None:
        return reaches_volume(snapshot, volume)
    if not volumes.waits(claim):
        return np.ones(len(nodes), np.bool_)
    mask = can_provision(snapshot, claim)
    for candidate in volumes.candidates(claim):
        mask |= reaches_volume(snapshot, candidate)
    return mask


def can_provision(snapshot: Snapshot, claim: VolumeClaim) -> Mask:
    """Nodes where a volume can be made for a claim; none where it is promised one that exists."""
    if snapshot.volumes.promised(claim) is not None:
        return np.zeros(len(snapshot.nodes), np.bool_)
    storage = snapshot.volumes.classes.get(claim.spec.storage_class_name)
    mask = np.full(len(snapshot.nodes), snapshot.volumes.can_be_made(claim))
    if storage is not None and storage.allowed is not None:
        mask &= _any_term(snapshot.nodes, storage.allowed)
    return mask


def reaches_volume(snapshot: Snapshot, volume: PersistentVolume) -> Mask:
    """Nodes from which a volume can be reached: its node affinity, and its labels of zones."""
    nodes, kept = snapshot.nodes, snapshot.volumes.reach
    stamp = (nodes.version, nodes.layout)
    found = kept.get(volume.metadata.name)
    if found is not None and found[0] == stamp and found[1] is volume:
        return found[2]
    affinity = volume.spec.node_affinity
    mask = np.ones(len(nodes), np.bool_)
    if affinity is not None and affinity.required is not None:
        mask &= _any_term(nodes, affinity.required)
    mask &= _zone_mask(nodes, volume)
    kept[volume.metadata.name] = (stamp, volume, mask)
    return mask


def _zone_mask(nodes: NodeTable, volume: PersistentVolume) -> Mask:
    """A node that says nothing of zones is in all of them; an old label also meets its new name."""
    mask = np.ones(len(nodes), np.bool_)
    for key, values in volume.zones.items():
        here = SelectorRequirement(key, "In", tuple(values))
        renamed = SelectorRequirement(ZONES[key], "In", tuple(values))
        named = label_mask(nodes, SelectorRequirement(key, "Exists"))
        mask &= np.where(named, label_mask(nodes, here), label_mask(nodes, renamed))
    if not volume.zones:
        return mask
    says = np.zeros(len(nodes), np.bool_)
    for key in ZONES:
        says |= label_mask(nodes, SelectorRequirement(key, "Exists"))
    return mask | ~says


def _any_term(nodes: NodeTable, selector: NodeSelector) -> Mask:
    mask = np.zeros(len(nodes), np.bool_)
    for term in selector.node_selector_terms:
        mask |= term_mask(nodes, term)
    return mask


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def term_mask(nodes: NodeTable, term: NodeSelectorTerm) -> Mask:
    """Nodes that match every row of a node selector term; an empty term matches none."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(len(nodes), np.bool_)
    mask = np.ones(len(nodes), np.bool_)
    for row in term.match_expressions:
        mask &= label_mask(nodes, row)
    for row in term.match_fields:
        mask &= _name_mask(nodes, row)
    return mask


def _name_mask(nodes: NodeTable, row: SelectorRequirement) -> Mask:
    named = np.zeros(len(nodes), np.bool_)
    named[nodes.rows_of(row.values)] = True
    known = row.key == "metadata.name" and row.operator in ("In", "NotIn")
    return named if known and row.operator == "In" else ~named & known


def label_mask(nodes: NodeTable, row: SelectorRequirement) -> Mask:
    """Nodes whose labels match one row; each distinct value is judged once."""
    column = nodes.column(row.key)
    judge = _OPERATORS.get(row.operator)
    if judge is None:
        return np.zeros(len(nodes), np.bool_)
    wanted = frozenset(row.values)
    passes = np.array([judge(value, wanted) for value in column.values], np.bool_)
    return passes[column.codes]


def _compare(value: str | None, wanted: frozenset[str], sign: int) -> bool:
    number, bound = integer(value or ""), integer(next(iter(wanted), ""))
    return number is not None and bound is not None and (number - bound) * sign > 0


_OPERATORS: dict[str, Callable[[str | None, frozenset[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, wanted: value is not None,
    "DoesNotExist": lambda value, wanted: value is None,
    "Gt": lambda value, wanted: _compare(value, wanted, 1),
    "Lt": lambda value, wanted: _compare(value, wanted, -1),
}
