"""Where a pod may run or prefers to run: label selectors, affinity, tolerations, topology spread.

Data only. `selectors.py` evaluates label selectors, the scheduler's filters the rest.
"""

# No `from __future__ import annotations`: msgspec would have to compile each of them again.

from kubekit.objects.meta import Object


class SelectorRequirement(Object, frozen=True):
    """One row of matchExpressions or matchFields."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Object, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


class NodeSelectorTerm(Object, frozen=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Object, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Object, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinity(Object, frozen=True, rename={"required": _REQUIRED, "preferred": _PREFERRED}):
    required: NodeSelector | None = None
    preferred: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Object, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Object, frozen=True, rename={"required": _REQUIRED, "preferred": _PREFERRED}):
    """Both podAffinity and podAntiAffinity have this shape."""

    required: tuple[PodAffinityTerm, ...] = ()
    preferred: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Object, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Object, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(Object, frozen=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    # The API server does not write these two defaults into the object.
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()
