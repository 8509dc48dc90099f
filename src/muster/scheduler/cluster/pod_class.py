"""Class batching: pods that may run on the same nodes share one `PodClass`.

A gang of 1000 workers has 1000 pods and usually one class per role, because the workers' specs
agree in every field that decides where a pod may run. Everything expensive is therefore done once
per class: parsing requests, masks over nodes, the number of copies that fit on each node.
`PodClasses.of(pod)` returns the same object for every pod that agrees, so classes are compared and
hashed by identity.

Labels belong to a class only if some affinity or spread selector names their key: every replica has
its own index label, and with all labels in it no two pods would share a class.
"""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubekit.objects.affinity import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    TopologySpreadConstraint,
)
from kubekit.objects.quantity import InvalidQuantity, parse_amount
from kubekit.objects.selectors import NOTHING, InvalidSelector, Selector, from_labels
from muster.scheduler.cluster.volumes import claims_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kubekit.objects.core import Container, Pod, PodSpec, Quantity, Resources

T = TypeVar("T")
TERM = TypeVar("TERM", PodAffinityTerm, TopologySpreadConstraint)
Vector = NDArray[np.int64]

CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
ABSENT = "on no node"
"""Stands for all resources that no node has: any pod may request some."""
MORE_THAN_ANY_NODE = 1 << 52
"""More than any node has, and small enough to be multiplied without overflow."""

MAX_WEIGHT = 100
"""The largest weight of a preference that Kubernetes accepts."""
MAX_RULES = 100
"""Rules of one pod about nodes and other pods; each is checked against all of them."""
MAX_REQUESTS = 100
"""Resources that one pod may request; each is looked at for all nodes."""
MAX_LABELS = 1000
"""Label keys that are kept in memory though no pod's rule names them."""
POD_LEVEL = ("cpu", "memory", "hugepages-")
"""Resources that a pod may request as a whole (Kubernetes' pod-level resources)."""


class Port(NamedTuple):
    """A port of the node itself that a pod listens on; an empty address means all addresses."""

    protocol: str
    number: int
    address: str


class PodTerm(NamedTuple):
    """A term of pod (anti-)affinity, resolved with the namespace and the labels of its own pod.

    `namespaces` and `chooser` (a namespace selector) add up. Selectors stay encoded, so that equal
    terms of different pods compare equal and share one count of matching pods.
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
    """One way to be placed. Made only by `PodClasses.of`."""

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
    excess: str = ""
    """What the pods have too much of to be placed. If they have a node, only a part is counted."""
    _cache: dict[object, tuple[object, Any]] = field(default_factory=dict)

    @property
    def coupled(self) -> bool:
        """Whether one placed copy changes where the next may go, other than by using up room."""
        return bool(
            self.ports or self.affinity or self.anti_affinity or self.spread or self.preferred
        )

    @property
    def body(self) -> bytes:
        """Everything that makes the class of a waiting pod, without its labels."""
        return _encode((self.namespace, *_scheduling_fields(self.spec)))

    @property
    def likes(self) -> tuple[tuple[int, PodTerm], ...]:
        """Terms by which a placed copy attracts later pods, with weights; a required term has 1."""
        if not self.preferred and not self.affinity:
            return ()
        return (*self.preferred, *((1, term) for term in self.affinity))

    def cached(self, key: object, stamp: object, compute: Callable[[], T]) -> T:
        """A value computed for this class, and computed again once `stamp` differs."""
        entry = self._cache.get(key)
        if entry is None or entry[0] != stamp:
            entry = self._cache[key] = (stamp, compute())
        value: T = entry[1]
        return value


class PodClasses:
    """The classes in use, and the columns of the resources that nodes have."""

    def __init__(self) -> None:
        self.resources: dict[str, int] = {CPU: 0, MEMORY: 1, STORAGE: 2, PODS: 3, ABSENT: 4}
        self.interesting: set[str] = set()
        self._most_labels = MAX_LABELS
        # Weak: a class is forgotten with the last slot or demand that uses it.
        self._known: weakref.WeakValueDictionary[bytes, PodClass] = weakref.WeakValueDictionary()

    def column(self, resource: str) -> int:
        """The column of a resource; resources that no node has share one, which is always empty."""
        return self.resources.get(resource, self.resources[ABSENT])

    def declare(self, resources: Iterable[str]) -> None:
        """Give the resources that a node has columns, and the classes in use the new columns."""
        before = len(self.resources)
        for name in resources:
            self.resources.setdefault(name, len(self.resources))
        if len(self.resources) > before:
            for cls in self._known.values():
                cls.columns[:] = [self.column(name) for name in cls.requests]

    def forget_labels(self) -> bool:
        """Beyond the bound, forget the label keys that the rules of no class in use name."""
        if len(self.interesting) < self._most_labels:
            return False
        self.interesting = {key for cls in self._known.values() for key in _keys_of(cls)}
        self._most_labels = max(MAX_LABELS, 2 * len(self.interesting))
        return True

    def of(self, pod: Pod) -> PodClass:
        """The class of a pod."""
        labels = self._relevant_labels(pod)
        claims = claims_of(pod) if pod.spec.needs_storage else ()
        fields = _scheduling_fields(pod.spec)
        signature = _encode((pod.metadata.namespace, labels, _allocated(pod), claims, *fields))
        cls = self._known.get(signature)
        if cls is None:
            cls = self._make(pod, labels, claims)
            if labels != self._relevant_labels(pod):
                return self.of(pod)  # its own selectors made more labels interesting
            self._known[signature] = cls
        return cls

    def stand_in(self, cls: PodClass, requests: Mapping[str, int]) -> PodClass:
        """For trials: a class like this one with these requests, without affinity and claims.

        Its host ports and its anti-affinity keep others away as those of the pods would.
        """
        return replace(
            cls,
            requests=requests,
            columns=np.array([self.column(name) for name in requests], np.intp),
            amounts=np.array(list(requests.values()), np.int64),
            affinity=(),
            preferred=(),
            spread=(),
            claims=(),
            _cache={},
        )

    def _relevant_labels(self, pod: Pod) -> dict[str, str]:
        # By the pod's labels, which are its own: others choose how many are interesting.
        labels = pod.metadata.labels.items()
        return {key: value for key, value in labels if key in self.interesting}

    def _make(self, pod: Pod, labels: Mapping[str, str], claims: tuple[str, ...]) -> PodClass:
        spec, affinity = pod.spec, pod.spec.affinity or Affinity()
        needed = {name: _capped(n) for name, n in requests(pod).items() if n > 0}
        needs = dict(islice(needed.items(), MAX_REQUESTS))
        needs[PODS] = 1  # every pod uses one of the node's allowed pods
        affinity_terms = affinity.pod_affinity or PodAffinity()
        anti_affinity_terms = affinity.pod_anti_affinity or PodAffinity()
        preferred = [
            (bounded_weight(item.weight), item.pod_affinity_term)
            for item in affinity_terms.preferred
        ]
        preferred += [
            (-bounded_weight(item.weight), item.pod_affinity_term)
            for item in anti_affinity_terms.preferred
        ]
        few = sum(1 for _ in _first(term for _, term in preferred))
        cls = PodClass(
            namespace=pod.metadata.namespace,
            labels=labels,
            spec=spec,
            requests=needs,
            columns=np.array([self.column(name) for name in needs], np.intp),
            amounts=np.array(list(needs.values()), dtype=np.int64),
            ports=host_ports(spec),
            affinity=tuple(pod_term(pod, term) for term in _first(affinity_terms.required)),
            anti_affinity=tuple(
                pod_term(pod, term) for term in _first(anti_affinity_terms.required)
            ),
            preferred=tuple((n, pod_term(pod, term)) for n, term in preferred[:few]),
            claims=claims,
            spread=tuple(_spread(pod, item) for item in _first(spec.topology_spread_constraints)),
            excess=_excess(len(needed), _rules(spec)),
        )
        self.interesting.update(_keys_of(cls))
        return cls


def _keys_of(cls: PodClass) -> Iterator[str]:
    """The label keys that the rules of a class about other pods name."""
    terms = (*cls.affinity, *cls.anti_affinity, *(term for _, term in cls.preferred))
    for term in (*terms, *(item.pods for item in cls.spread)):
        for requirement in selector_of(term.selector).requirements:
            yield requirement.key


def _first(terms: Iterable[TERM]) -> Iterator[TERM]:
    """The first terms about other pods, as long as they are few enough together."""
    count = 0
    for term in terms:
        count += _size(term)
        if count > MAX_RULES:
            return
        yield term


def _size(term: PodAffinityTerm | TopologySpreadConstraint) -> int:
    """How many rules a term about other pods is."""
    selector = term.label_selector or LabelSelector()
    return 1 + len(selector.match_labels) + len(selector.match_expressions)


def _rules(spec: PodSpec) -> int:
    """How many rules about nodes and other pods a pod has."""
    affinity = spec.affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    required = nodes.required.node_selector_terms if nodes.required else ()
    alternatives = (*required, *(item.preference for item in nodes.preferred))
    count = len(spec.node_selector) + sum(map(_size, spec.topology_spread_constraints))
    count += sum(len(t.match_expressions) + len(t.match_fields) + 1 for t in alternatives)
    for terms in filter(None, (affinity.pod_affinity, affinity.pod_anti_affinity)):
        count += sum(map(_size, terms.required))
        count += sum(_size(item.pod_affinity_term) for item in terms.preferred)
    return count


def _excess(resources: int, rules: int) -> str:
    if resources > MAX_REQUESTS:
        return f"a pod requests {resources} resources, more than {MAX_REQUESTS}"
    if rules > MAX_RULES:
        what = "rules of node selection, affinity and spread"
        return f"a pod has {rules} {what}, more than {MAX_RULES}"
    return ""


_encode = msgspec.msgpack.Encoder(order="sorted").encode
_decode_selector = msgspec.msgpack.Decoder(LabelSelector | None).decode


@lru_cache(maxsize=1024)
def selector_of(encoded: bytes) -> Selector:
    """The selector of a term; an invalid one matches nothing."""
    try:
        return from_labels(_decode_selector(encoded))
    except InvalidSelector:
        return NOTHING


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
    """The resources that the node granted each container: they differ from the spec in a resize."""
    if not pod.spec.node_name:
        return {}
    return {s.name: s.allocated_resources for s in pod.status.container_statuses}


def requests(pod: Pod) -> Counter[str]:
    """The resources that a pod needs of its node, by Kubernetes' rule.

    Containers run together with every restartable init container (sidecar); an ordinary init
    container runs before them, together with the sidecars that precede it. The pod needs the
    larger of the two phases, a pod-level request replaces the sum where there is one, and
    overhead comes on top.
    """
    granted = _allocated(pod)
    containers: Counter[str] = Counter()
    for container in pod.spec.containers:
        needs = _needs(container) | parse_resources(granted.get(container.name, {}))
        containers.update(needs)
    # One step per request: a pod may have thousands of containers with thousands of resources.
    sidecars: Counter[str] = Counter()
    init: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        needs = _needs(container)
        for name, amount in needs.items():
            init[name] = max(init[name], sidecars[name] + amount)
        if container.restart_policy == "Always":
            sidecars.update(needs)
    total = (containers + sidecars) | init
    if pod.spec.resources is not None:
        whole_pod = {**pod.spec.resources.limits, **pod.spec.resources.requests}
        for name, amount in parse_resources(whole_pod).items():
            if name.startswith(POD_LEVEL):
                total[name] = amount
    return total + parse_resources(pod.spec.overhead)


def _needs(container: Container) -> Counter[str]:
    # Kubernetes' rule too: a limit without a request is also the request.
    return parse_resources({**container.resources.limits, **container.resources.requests})


def parse_resources(resources: Resources) -> Counter[str]:
    """A resource list in integers; an invalid quantity is more than any node has."""
    return Counter({name: _amount(name, quantity) for name, quantity in resources.items()})


def _capped(amount: int) -> int:
    """An amount that fits the arrays; a pod of thousands of containers can sum up to more."""
    return max(-MORE_THAN_ANY_NODE, min(amount, MORE_THAN_ANY_NODE))


def _amount(resource: str, quantity: Quantity) -> int:
    try:
        return _capped(parse_amount(resource, quantity))
    except InvalidQuantity:
        return MORE_THAN_ANY_NODE


def bounded_weight(weight: int) -> int:
    """The weight of a preference: sums of weights must fit the arrays."""
    return max(-MAX_WEIGHT, min(weight, MAX_WEIGHT))


def host_ports(spec: PodSpec) -> tuple[Port, ...]:
    """The ports of the node that a pod needs, each once, in order."""
    ports = set()
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                address = "" if port.host_ip in ("", "0.0.0.0", "::") else port.host_ip
                ports.add(Port(port.protocol or "TCP", number, address))
    return tuple(sorted(ports))


def pod_term(pod: Pod, term: PodAffinityTerm) -> PodTerm:
    """A term resolved for its pod: own namespace by default, own values for matchLabelKeys."""
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
    """A selector that also requires the pod's own values of some keys, and none of other keys."""
    if selector is None:
        return None
    labels = pod.metadata.labels
    own = (
        SelectorRequirement(key, operator, (labels[key],))
        for operator, keys in (("In", same), ("NotIn", other))
        for key in keys
        if key in labels
    )
    # The API server merges the same rows into the selector itself: each must appear once.
    rows = dict.fromkeys((*selector.match_expressions, *own))
    return msgspec.structs.replace(selector, match_expressions=tuple(rows))
