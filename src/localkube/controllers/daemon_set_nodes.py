"""On which nodes the pods of a daemon set run: pure.

The controller chooses the node and the scheduler binds the pod, through a node affinity that names
the node. So the controller reads nodeSelector, affinity and taints as the scheduler does, and
leaves room and ports to the scheduler.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import InvalidSelector
from kubekit.objects.selectors import Requirement, Selector
from localkube.controllers.node_taints import tolerates
from localkube.controllers.workloads import PodSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.affinity import NodeSelectorTerm, SelectorRequirement
    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import Node, Pod

NODE_NAME = "metadata.name"
_NO_EXECUTE, _NO_SCHEDULE = "NoExecute", "NoSchedule"
# Not evicted from a node in trouble: the same node is the only place where the pod may run.
_TOLERATED = (
    ("not-ready", _NO_EXECUTE),
    ("unreachable", _NO_EXECUTE),
    ("disk-pressure", _NO_SCHEDULE),
    ("memory-pressure", _NO_SCHEDULE),
    ("pid-pressure", _NO_SCHEDULE),
    ("unschedulable", _NO_SCHEDULE),
)
_ON_HOST_NETWORK = ("network-unavailable", _NO_SCHEDULE)


class Fit(Enum):
    """What a daemon set does with one node."""

    RUN = "run"
    """The node gets a pod."""
    STAY = "stay"
    """The node gets no pod, but keeps the pod that it has."""
    LEAVE = "leave"
    """The node must have no pod."""


def pod_spec(template: Raw) -> PodSpec:
    """The spec of the pods of a template, with the tolerations that every daemon pod has."""
    spec: Raw = template.get("spec") or {}
    return msgspec.convert({**spec, "tolerations": tolerations(spec)}, PodSpec)


def tolerations(spec: Raw) -> list[Raw]:
    """The tolerations of a daemon pod; the added ones replace those that differ in time only."""
    added = [*_TOLERATED, *([_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    rows: list[Raw] = list(spec.get("tolerations") or ())
    for name, effect in added:
        toleration = {
            "key": f"node.kubernetes.io/{name}",
            "operator": "Exists",
            "effect": effect,
        }
        others = [{**row, "tolerationSeconds": None} for row in rows]
        equal = {**toleration, "tolerationSeconds": None}
        if equal in others:
            rows[others.index(equal)] = toleration
        else:
            rows.append(toleration)
    return rows


def fit(spec: PodSpec, node: Node) -> Fit:
    """Whether a node gets, keeps or loses a pod."""
    if spec.node_name not in ("", node.metadata.name) or not _selected(spec, node):
        return Fit.LEAVE
    effects = {
        taint.effect
        for taint in node.spec.taints
        if not any(tolerates(toleration, taint) for toleration in spec.tolerations)
    }
    if _NO_EXECUTE in effects:
        return Fit.LEAVE
    return Fit.STAY if _NO_SCHEDULE in effects else Fit.RUN


def target_node(pod: Pod) -> str:
    """The node of a pod, or the node that it was created for; empty if it names none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    for row in (row for term in terms for row in term.match_fields):
        if row.key == NODE_NAME and row.operator == "In":
            return row.values[0] if len(row.values) == 1 else ""
    return ""


def _selected(spec: PodSpec, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return any(_term_matches(term, node) for term in affinity.required.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether a node matches every row of a term; an empty term matches none."""
    if not term.match_expressions and not term.match_fields:
        return False
    by_label = _rows_match(term.match_expressions, node.metadata.labels)
    return by_label and _rows_match(term.match_fields, {NODE_NAME: node.metadata.name})


def _rows_match(rows: Iterable[SelectorRequirement], values: dict[str, str]) -> bool:
    try:
        selector = Selector(Requirement(row.key, row.operator, row.values) for row in rows)
    except InvalidSelector:  # as on Kubernetes, a term that cannot be read matches no node
        return False
    return selector.matches(values)
