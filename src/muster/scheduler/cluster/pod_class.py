"""What decides where a pod may run, as one object per kind of pod.

The members of a gang fall into a few classes, usually one per role, and everything expensive is
done once per class: requests, masks over nodes, copies per node. `PodClasses.of(pod)` returns the
same object for every pod that agrees, so classes are compared and hashed by identity.

Labels belong to a class only if some affinity or spread selector names their key: every replica has
an index label of its own, and keeping all labels would make every pod a class of its own.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.api.affinity import (
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    TopologySpreadConstraint,
)
from muster.api.quantity import parse_amount
from muster.api.selectors import NOTHING, Selector, from_labels
from muster.errors import InvalidQuantity, InvalidSelector
from muster.scheduler.cluster.volumes import claims_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster.api.core import Container, Pod, PodSpec, Quantity, Resources

Vector = NDArray[np.int64]

CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
MORE_THAN_ANY_NODE = 1 << 52
"""More than any node has, and small enough to be multiplied without overflow."""

POD_LEVEL = ("cpu", "memory", "hugepages-")


class Port(NamedTuple):
    """A port of the node itself that a pod listens on; an empty address means all of them."""

    protocol: str
    number: int
    address: str


class PodTerm(NamedTuple):
    """A term of pod (anti-)affinity with everything resolved that the pod itself decides.

    `namespaces` and `chooser` (a namespace selector) add up; selectors are kept encoded, because
    two pods that wrote the same term share one count of matching pods.
    """

    selector: bytes
    namespaces: frozenset[str]
    chooser: bytes
    topology: str


class SpreadTerm(NamedTuple):
    """A topology spread constraint, resolved the same way."""

    pods: PodTerm
    max_skew: int
    min_domains: int
    required: bool
    honour_affinity: bool
    honour_taints: bool


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class PodClass:
    """One way to be placed. Made only by `Classes.of`."""

    namespace: str
    labels: Mapping[str, str]
    spec: PodSpec
    requests: Mapping[str, int]
    columns: NDArray[np.intp]
    amounts: Vector
    ports: tuple[Port, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[int, PodTerm], ...] = ()
    spread: tuple[SpreadTerm, ...] = ()
    claims: tuple[str, ...] = ()
    cache: dict[str, object] = field(default_factory=dict)

    @property
    def coupled(self) -> bool:
        """Whether one placed copy changes where the next may go, other than by using up room."""
        return bool(
            self.ports or self.affinity or self.anti_affinity or self.spread or self.preferred
        )

    @property
    def body(self) -> bytes:
        """All that makes the class of a waiting pod what it is, but its labels."""
        return _encode((self.namespace, *_scheduling_fields(self.spec)))

    @property
    def likes(self) -> tuple[tuple[int, PodTerm], ...]:
        """What it would have near it once placed; a required neighbour is liked a little too."""
        if not self.preferred and not self.affinity:
            return ()
        return (*self.preferred, *((1, term) for term in self.affinity))


class PodClasses:
    """The classes in use, and the columns of the resources that any of them asks for."""

    def __init__(self) -> None:
        self.resources: dict[str, int] = {CPU: 0, MEMORY: 1, STORAGE: 2, PODS: 3}
        self.interesting: set[str] = set()
        self._known: weakref.WeakValueDictionary[bytes, PodClass] = weakref.WeakValueDictionary()

    def column(self, resource: str) -> int:
        """The column of a resource; a new one the first time it is named."""
        return self.resources.setdefault(resource, len(self.resources))

    def of(self, pod: Pod) -> PodClass:
        """The class of a pod."""
        spec = pod.spec
        labels = pod.metadata.labels
        kept = {key: labels[key] for key in sorted(self.interesting) if key in labels}
        allocated = _allocated(pod)
        claims = claims_of(pod) if spec.volumes else ()
        signature = _encode(
            (pod.metadata.namespace, kept, allocated, claims, *_scheduling_fields(spec))
        )
        found = self._known.get(signature)
        if found is None:
            found = self._make(pod, kept)
            if kept != {key: labels[key] for key in self.interesting if key in labels}:
                return self.of(pod)  # its own selectors made more labels interesting
            self._known[signature] = found
        return found

    def _make(self, pod: Pod, kept: Mapping[str, str]) -> PodClass:
        spec = pod.spec
        needs = {name: amount for name, amount in requests(pod).items() if amount > 0}
        needs[PODS] = 1
        affinity = spec.affinity.pod_affinity if spec.affinity else None
        anti = spec.affinity.pod_anti_affinity if spec.affinity else None
        made = PodClass(
            namespace=pod.metadata.namespace,
            labels=kept,
            spec=spec,
            requests=needs,
            columns=np.array([self.column(name) for name in needs], np.intp),
            amounts=np.array(list(needs.values()), dtype=np.int64),
            ports=host_ports(spec),
            affinity=tuple(pod_term(pod, term) for term in _required(affinity)),
            anti_affinity=tuple(pod_term(pod, term) for term in _required(anti)),
            preferred=_preferred(pod, affinity, anti),
            claims=claims_of(pod) if spec.volumes else (),
            spread=tuple(_spread(pod, item) for item in spec.topology_spread_constraints),
        )
        for term in (*made.affinity, *made.anti_affinity, *(t for _, t in made.preferred)):
            self.interesting |= selector_keys(term.selector)
        for item in made.spread:
            self.interesting |= selector_keys(item.pods.selector)
        return made


_encode = msgspec.msgpack.Encoder(order="sorted").encode
ABSENT = _encode(None)
"""How the selector of whoever has none is kept."""
_decode_selector = msgspec.msgpack.Decoder(LabelSelector | None).decode


@lru_cache(maxsize=1024)
def selector_of(encoded: bytes) -> Selector:
    """The selector that a term keeps encoded; one that cannot be read matches nothing."""
    try:
        return from_labels(_decode_selector(encoded))
    except InvalidSelector:
        return NOTHING


def selector_keys(encoded: bytes) -> set[str]:
    """The label keys a selector looks at."""
    return {requirement.key for requirement in selector_of(encoded).requirements}


def _scheduling_fields(spec: PodSpec) -> tuple[object, ...]:
    return (
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.host_network,
        spec.resource_claims,
    )


def _allocated(pod: Pod) -> Mapping[str, Resources]:
    """What a node granted each container: matters after a resize."""
    if not pod.spec.node_name:
        return {}
    return {s.name: s.allocated_resources for s in pod.status.container_statuses}


def requests(pod: Pod) -> dict[str, int]:
    """What a pod needs of its node, by Kubernetes' own rule.

    Containers run together with every restartable init container (sidecar); an ordinary init
    container runs before them, together with the sidecars that precede it. The pod needs the
    larger of the two phases, a pod-level request replaces the sum where there is one, and
    overhead comes on top.
    """
    granted = _allocated(pod)
    together: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(together, _larger(_needs(container), parse_resources(granted.get(container.name, {}))))
    sidecars: dict[str, int] = {}
    before: dict[str, int] = {}
    for container in pod.spec.init_containers:
        phase = dict(sidecars)
        _add(phase, _needs(container))
        if container.restart_policy == "Always":
            sidecars = phase
        before = _larger(before, phase)
    _add(together, sidecars)
    total = _larger(together, before)
    if pod.spec.resources is not None:
        whole_pod = {**pod.spec.resources.limits, **pod.spec.resources.requests}
        total.update(
            {
                name: n
                for name, n in parse_resources(whole_pod).items()
                if name.startswith(POD_LEVEL)
            }
        )
    _add(total, parse_resources(pod.spec.overhead))
    return total


def _needs(container: Container) -> dict[str, int]:
    resources = container.resources
    return parse_resources({**resources.limits, **resources.requests})


def parse_resources(resources: Resources) -> dict[str, int]:
    """A resource list in integers; what cannot be read is more than any node has."""
    return {name: _counted(name, quantity) for name, quantity in resources.items()}


def _counted(resource: str, quantity: Quantity) -> int:
    try:
        return min(parse_amount(resource, quantity), MORE_THAN_ANY_NODE)
    except InvalidQuantity:
        return MORE_THAN_ANY_NODE


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, n in more.items():
        total[name] = total.get(name, 0) + n


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in (*one, *other)}


def host_ports(spec: PodSpec) -> tuple[Port, ...]:
    """The node's ports a pod wants, each once, in order."""
    found = set()
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                address = "" if port.host_ip in ("", "0.0.0.0", "::") else port.host_ip
                found.add(Port(port.protocol or "TCP", number, address))
    return tuple(sorted(found))


def _required(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return affinity.required if affinity else ()


def _preferred(
    pod: Pod, affinity: PodAffinity | None, anti: PodAffinity | None
) -> tuple[tuple[int, PodTerm], ...]:
    wanted = [(p.weight, p.pod_affinity_term) for p in (affinity.preferred if affinity else ())]
    shunned = [(-p.weight, p.pod_affinity_term) for p in (anti.preferred if anti else ())]
    return tuple((weight, pod_term(pod, term)) for weight, term in (*wanted, *shunned))


def pod_term(pod: Pod, term: PodAffinityTerm) -> PodTerm:
    """A term as this pod means it: own namespace by default, own labels for the label keys."""
    selector = _narrowed(pod, term.label_selector, term.match_label_keys, term.mismatch_label_keys)
    chooser = term.namespace_selector
    own = not term.namespaces and chooser is None
    names = frozenset({pod.metadata.namespace} if own else term.namespaces)
    return PodTerm(_encode(selector), names, _encode(chooser), term.topology_key)


def _spread(pod: Pod, item: TopologySpreadConstraint) -> SpreadTerm:
    selector = _narrowed(pod, item.label_selector, item.match_label_keys, ())
    here = frozenset({pod.metadata.namespace})
    return SpreadTerm(
        pods=PodTerm(_encode(selector), here, _encode(None), item.topology_key),
        max_skew=item.max_skew,
        min_domains=item.min_domains or 1,
        required=item.when_unsatisfiable == "DoNotSchedule",
        honour_affinity=item.node_affinity_policy == "Honor",
        honour_taints=item.node_taints_policy == "Honor",
    )


def _narrowed(
    pod: Pod, selector: LabelSelector | None, same: Iterable[str], other: Iterable[str]
) -> LabelSelector | None:
    if selector is None:
        return None
    labels = pod.metadata.labels
    rows = [*selector.match_expressions]
    for operator, keys in (("In", same), ("NotIn", other)):
        for key in keys:
            row = _row(key, operator, labels.get(key))
            if row is not None and row not in rows:
                rows.append(row)
    return msgspec.structs.replace(selector, match_expressions=tuple(rows))


def _row(key: str, operator: str, value: str | None) -> SelectorRequirement | None:
    return None if value is None else SelectorRequirement(key, operator, (value,))
