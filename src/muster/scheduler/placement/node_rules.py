"""Where a class of pods may go by the node's own fields: readiness, taints and labels.

Each function takes the snapshot and a class and returns a mask over the nodes. The fields have
Kubernetes' meaning. `filters` caches the masks until a node changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kubekit.objects.affinity import NodeSelectorTerm, SelectorRequirement, Toleration
from kubekit.objects.core import Taint, tolerates
from kubekit.objects.selectors import integer
from muster.scheduler.cluster.nodes import forbids_scheduling

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.objects.affinity import NodeSelector
    from muster.scheduler.cluster.nodes import Mask, NodeTable
    from muster.scheduler.cluster.pod_class import PodClass, Vector
    from muster.scheduler.cluster.snapshot import Snapshot


def is_ready(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that are up."""
    return snapshot.nodes.ready


def tolerates_taints(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes whose taints, a cordon among them, are all tolerated."""
    mask: Mask = untolerated_taints(snapshot, cls, forbids_scheduling) == 0
    return mask


def untolerated_taints(snapshot: Snapshot, cls: PodClass, which: Callable[[Taint], bool]) -> Vector:
    """How many taints of a sort each node has that the class does not tolerate."""
    nodes, tolerations = snapshot.nodes, cls.spec.tolerations
    # Thousands of nodes share a few sets of taints: each set is checked once.
    counts = [
        sum(which(taint) and not tolerated(taint, tolerations) for taint in taints)
        for taints in nodes.taint_sets
    ]
    return np.array(counts, np.int64)[nodes.taints]


def matches_selector(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that match nodeSelector and required node affinity."""
    nodes, spec = snapshot.nodes, cls.spec
    mask = np.ones(len(nodes), np.bool_)
    for key, value in spec.node_selector.items():
        mask &= label_mask(nodes, SelectorRequirement(key, "In", (value,)))
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is not None and affinity.required is not None:
        mask &= any_term(nodes, affinity.required)
    return mask


def any_term(nodes: NodeTable, selector: NodeSelector) -> Mask:
    mask = np.zeros(len(nodes), np.bool_)
    for term in selector.node_selector_terms:
        mask |= term_mask(nodes, term)
    return mask


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


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
    """Nodes whose labels match one row; each distinct value is checked once."""
    column = nodes.column(row.key)
    matches = _OPERATORS.get(row.operator)
    if matches is None:
        return np.zeros(len(nodes), np.bool_)
    wanted = frozenset(row.values)
    passes = np.array([matches(value, wanted) for value in column.values], np.bool_)
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
