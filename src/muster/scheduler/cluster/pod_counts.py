"""Pods counted per node, for rules that depend on other pods: affinity, spread, ports and claims.

Three kinds of counts: pods that a selector matches, pods whose own anti-affinity forbids others,
pods whose preferences attract or repel others. A count is computed when it is first needed. From
then on the same `take` that uses up room keeps it current, so a trial and its undo keep it right at
no extra cost. On clusters without such rules everything here stays empty.
"""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from kubekit.objects.meta import Key
from muster.scheduler.cluster.pod_class import PodClass, PodTerm, Port, Vector, selector_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from muster.scheduler.cluster.nodes import Codes, NodeTable

K = TypeVar("K")
V = TypeVar("V")
MAX_COUNTS = 512
"""Counts in memory. Beyond this number, counts that can be computed again are dropped, and counts
that are zero on every node."""


class Use(NamedTuple):
    """Some pods of a class on a row; `n` is negative for pods that leave."""

    cls: PodClass
    row: int
    n: int = 1
    terminating: bool = False


Uses: TypeAlias = "Callable[[Callable[[PodClass], bool]], Iterable[Use]]"


@dataclass
class PodCount:
    """How many pods on each node match all terms; `living` leaves out pods being deleted."""

    terms: tuple[PodTerm, ...]
    living: bool
    namespaces: Mapping[str, Mapping[str, str]]
    counts: Vector
    _sums: dict[str, tuple[tuple[int, ...], Codes, Vector]] = field(default_factory=dict)
    _answers: weakref.WeakKeyDictionary[PodClass, bool] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def matches(self, cls: PodClass) -> bool:
        """Whether pods of that class are counted."""
        answer = self._answers.get(cls)
        if answer is None:
            answer = self._answers[cls] = all(self._selects(term, cls) for term in self.terms)
        return answer

    def take(self, use: Use) -> None:
        """Count pods that are known to match."""
        if not (self.living and use.terminating):
            self.add(use.row, use.n)

    def add(self, row: int, n: int) -> None:
        """Count on one row, and in the domains of the row."""
        self.counts[row] += n
        for _, codes, sums in self._sums.values():
            if codes[row] < len(sums):  # else labels changed, and the next `sums` starts again
                sums[codes[row]] += n

    def sums(self, nodes: NodeTable, topology: str) -> Vector:
        """The counts by domain, in the codes of that label's column. Do not write to it."""
        column = nodes.column(topology)
        stamp = (*nodes.stamp, len(column.values))
        cached = self._sums.get(topology)
        if cached is None or cached[0] != stamp:
            summed = np.bincount(column.codes, self.counts, len(column.values)).astype(np.int64)
            cached = self._sums[topology] = (stamp, column.codes, summed)
        return cached[2]

    def forget_answers(self) -> None:
        """Namespaces changed: check every class again."""
        self._answers.clear()

    def _selects(self, term: PodTerm, cls: PodClass) -> bool:
        labels = self.namespaces.get(cls.namespace, {})
        chosen = cls.namespace in term.namespaces or selector_of(term.chooser).matches(labels)
        return chosen and selector_of(term.selector).matches(cls.labels)


class _CountsByTerm(dict[Any, PodCount]):
    """Counts of one kind, and for each class the counts that match it.

    A class is checked against each count once: dicts keep their order, so the counts added since
    the last question are the last ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self._matches: weakref.WeakKeyDictionary[PodClass, tuple[int, list[PodCount]]]
        self._matches = weakref.WeakKeyDictionary()
        self._most = MAX_COUNTS

    def matching(self, cls: PodClass) -> list[PodCount]:
        """The counts that count pods of this class."""
        if not self:
            return []
        checked, matches = self._matches.get(cls, (0, []))
        if checked < len(self):
            added = islice(self.values(), checked, None)
            matches = [*matches, *(pod_count for pod_count in added if pod_count.matches(cls))]
            self._matches[cls] = (len(self), matches)
        return matches

    def make_room(self) -> None:
        """Before a count is added: beyond the bound, drop the counts that count no pod."""
        if len(self) < self._most:
            return
        for term in [term for term, pod_count in self.items() if not pod_count.counts.any()]:
            del self[term]
        self._matches.clear()
        self._most = max(MAX_COUNTS, 2 * len(self))  # doubled: few additions pay for a look at all

    def clear(self) -> None:
        super().clear()
        self._matches.clear()

    def forget_answers(self) -> None:
        """Namespaces changed: check every class again."""
        self._matches.clear()
        for pod_count in self.values():
            pod_count.forget_answers()


class PodCounts:
    """All counts of one snapshot."""

    def __init__(self) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.size = 0
        self.active = False
        """Whether anything is counted yet: on most clusters nothing ever is."""
        self.claims: dict[Key, Counter[int]] = {}
        """The rows of the pods that use each claim, and how many there are."""
        self.forbidding = _CountsByTerm()
        """Pods per node that carry an anti-affinity term, by term."""
        self.liking = _CountsByTerm()
        """Sums of weights by which placed pods attract (or, negative, repel) others, by term."""
        self._matching = _CountsByTerm()
        self._ports: dict[tuple[str, int], Counter[tuple[int, str]]] = {}
        """The rows and addresses on which each port is used."""

    def take(self, use: Use) -> None:
        """Count pods, or uncount them where `n` is negative."""
        cls = use.cls
        self.active = self.active or bool(cls.coupled or cls.claims)
        for pod_count in self._matching.matching(cls):
            pod_count.take(use)
        for term in cls.anti_affinity:
            self._count(self.forbidding, term).add(use.row, use.n)
        for weight, term in cls.likes:
            self._count(self.liking, term).add(use.row, use.n * weight)
        for claim in cls.claims:
            _add(self.claims, Key(cls.namespace, claim), use.row, use.n)
        for port in cls.ports:
            _add(self._ports, (port.protocol, port.number), (use.row, port.address), use.n)

    def rebuild(self, size: int, uses: Iterable[Use]) -> None:
        """Count everything again: rows have moved, or pods have been classified again."""
        self.size = size
        self._ports, self.claims = {}, {}
        for counts in (self._matching, self.forbidding, self.liking):
            counts.clear()
        for use in uses:
            self.take(use)

    def matching(self, terms: tuple[PodTerm, ...], uses: Uses, *, living: bool = False) -> PodCount:
        """The count of pods that match all terms; a new one starts with the pods in `uses`."""
        # Terms that differ by topology only share one count: `sums` adds it up for each topology.
        key = (tuple(term._replace(topology="") for term in terms), living)
        pod_count = self._matching.get(key)
        if pod_count is None:
            self.active = True
            if len(self._matching) >= MAX_COUNTS:
                self._matching.clear()
            counts = np.zeros(self.size, np.int64)
            pod_count = self._matching[key] = PodCount(key[0], living, self.namespaces, counts)
            for use in uses(pod_count.matches):
                pod_count.take(use)
        return pod_count

    def namespace_changed(self) -> None:
        """A namespace's labels changed: count again where a term selects namespaces by label."""
        self._matching.clear()
        # These two count the pods that carry a term, whomever the term selects.
        self.forbidding.forget_answers()
        self.liking.forget_answers()

    def rows_using(self, port: Port) -> list[int]:
        """Rows where the port is taken: the same number on the same address or on all of them."""
        users = self._ports.get((port.protocol, port.number), ())
        address = port.address
        return [row for row, used in users if not (used and address) or used == address]

    def users(self, claim: Key) -> int:
        """How many pods use a claim, on all nodes together."""
        return sum(self.claims.get(claim, {}).values())

    def _count(self, counts: _CountsByTerm, term: PodTerm) -> PodCount:
        pod_count = counts.get(term)
        if pod_count is None:
            counts.make_room()
            zeros = np.zeros(self.size, np.int64)
            pod_count = counts[term] = PodCount((term,), False, self.namespaces, zeros)
        return pod_count


def _add(counters: dict[K, Counter[V]], key: K, value: V, n: int) -> None:
    """Count a value in the counter of a key; neither keeps a zero."""
    counter = counters.setdefault(key, Counter())
    counter[value] += n
    if counter[value] <= 0:
        del counter[value]
        if not counter:
            del counters[key]
