"""Pods counted per node: those a selector matches, those that carry a term, those that use a port.

A count is made the first time it is needed and then kept current by the same `take` that uses up
room, so a trial and its undo keep it right at no extra cost. On clusters without such constraints
everything here stays empty.
"""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from muster.api.meta import Key
from muster.scheduler.cluster.pod_class import PodClass, PodTerm, Port, Vector, selector_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from muster.scheduler.cluster.nodes import Codes, NodeTable

MAX_COUNTS = 512
"""Counts at one time; beyond it all are dropped and made again when needed."""


class Use(NamedTuple):
    """Some pods of a class on a row; `n` is negative where they leave."""

    cls: PodClass
    row: int
    n: int = 1
    terminating: bool = False


Uses: TypeAlias = "Callable[[Callable[[PodClass], bool]], Iterable[Use]]"


@dataclass
class PodCount:
    """How many pods on each node match all of some terms; `living` leaves out those that leave."""

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
            answer = all(self._speaks_of(term, cls) for term in self.terms)
            self._answers[cls] = answer
        return answer

    def take(self, use: Use) -> None:
        """Count pods that are known to match."""
        if not (self.living and use.terminating):
            self.add(use.row, use.n)

    def add(self, row: int, n: int) -> None:
        """Count on one row, and in the domains it is in."""
        self.counts[row] += n
        for _, codes, sums in self._sums.values():
            if codes[row] < len(sums):  # else labels changed since, and the sums are made again
                sums[codes[row]] += n

    def sums(self, nodes: NodeTable, topology: str) -> Vector:
        """The counts by domain, in the codes of that label's column. Not to be written to."""
        column = nodes.column(topology)
        stamp = (nodes.version, nodes.layout, len(column.values))
        cached = self._sums.get(topology)
        if cached is None or cached[0] != stamp:
            summed = np.bincount(column.codes, self.counts, len(column.values)).astype(np.int64)
            cached = self._sums[topology] = (stamp, column.codes, summed)
        return cached[2]

    def forget_answers(self) -> None:
        """Namespaces changed: check every class again."""
        self._answers.clear()

    def _speaks_of(self, term: PodTerm, cls: PodClass) -> bool:
        chosen = cls.namespace in term.namespaces or selector_of(term.chooser).matches(
            self.namespaces.get(cls.namespace, {})
        )
        return chosen and selector_of(term.selector).matches(cls.labels)


class PodCounts:
    """All counts of one snapshot."""

    def __init__(self) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.size = 0
        self.active = False
        """Whether anything is counted yet: on most clusters nothing ever is."""
        self._ports: dict[tuple[str, int], dict[int, Counter[str]]] = {}
        self.claims: dict[Key, Counter[int]] = {}
        """Claims in use: rows and how many pods."""
        self._matching: dict[tuple[tuple[PodTerm, ...], bool], PodCount] = {}
        self._carried: dict[PodTerm, PodCount] = {}
        self._liked: dict[PodTerm, PodCount] = {}
        self._counting = _Relevant(self._matching)
        self._forbidding = _Relevant(self._carried)
        self._liking = _Relevant(self._liked)

    def take(self, use: Use) -> None:
        """Count pods in, or out where `n` is negative."""
        cls = use.cls
        self.active = self.active or bool(cls.coupled or cls.claims)
        for pod_count in self._counting.to(use.cls):
            pod_count.take(use)
        for term in use.cls.anti_affinity:
            self._carrying(self._carried, term).add(use.row, use.n)
        for weight, term in use.cls.likes:
            self._carrying(self._liked, term).add(use.row, use.n * weight)
        for claim in use.cls.claims:
            self._use_claim(Key(use.cls.namespace, claim), use)
        for port in use.cls.ports:
            users = self._ports.setdefault((port.protocol, port.number), {})
            users.setdefault(use.row, Counter())[port.address] += use.n

    def rebuild(self, size: int, uses: Iterable[Use]) -> None:
        """Start again: rows have moved, or pods have been classified again."""
        self.size = size
        self._ports, self.claims = {}, {}
        self._forget(self._counting, self._matching)
        self._forget(self._forbidding, self._carried)
        self._forget(self._liking, self._liked)
        for use in uses:
            self.take(use)

    def matching(self, terms: tuple[PodTerm, ...], uses: Uses, *, living: bool = False) -> PodCount:
        """The count for terms; `uses` gives what was counted so far, asked only for a new one."""
        key = (tuple(term._replace(topology="") for term in terms), living)
        found = self._matching.get(key)
        if found is None:
            self.active = True
            if len(self._matching) >= MAX_COUNTS:
                self._forget(self._counting, self._matching)
            counts = np.zeros(self.size, np.int64)
            found = self._matching[key] = PodCount(key[0], living, self.namespaces, counts)
            for use in uses(found.matches):
                found.take(use)
        return found

    def namespace_changed(self) -> None:
        """A namespace's labels changed: counts that choose namespaces by label are made again."""
        self._forget(self._counting, self._matching)
        for pod_count in (*self._carried.values(), *self._liked.values()):
            pod_count.forget_answers()
        self._forbidding.clear()
        self._liking.clear()

    def rows_using(self, port: Port) -> list[int]:
        """Rows where that port cannot be had: the same number on the same or on every address."""
        users = self._ports.get((port.protocol, port.number), {})
        return [row for row, addresses in users.items() if _clash(port.address, addresses)]

    def forbidding(self, cls: PodClass) -> list[PodCount]:
        """Anti-affinity terms that speak of this class, with the pods per node that carry them."""
        return self._forbidding.to(cls)

    def liking(self, cls: PodClass) -> list[PodCount]:
        """Terms by which placed pods want this class near, or away; counts are sums of weights."""
        return self._liking.to(cls)

    def users(self, claim: Key) -> int:
        """How many pods use a claim, wherever they are."""
        return sum(self.claims.get(claim, {}).values())

    def _use_claim(self, claim: Key, use: Use) -> None:
        rows = self.claims.setdefault(claim, Counter())
        rows[use.row] += use.n
        if rows[use.row] <= 0:
            del rows[use.row]

    def _carrying(self, among: dict[PodTerm, PodCount], term: PodTerm) -> PodCount:
        found = among.get(term)
        if found is None:
            counts = np.zeros(self.size, np.int64)
            found = among[term] = PodCount((term,), False, self.namespaces, counts)
        return found

    @staticmethod
    def _forget(relevant: _Relevant, pod_counts: dict[Any, PodCount]) -> None:
        pod_counts.clear()
        relevant.clear()


class _Relevant:
    """The counts that match each class; counts added since are checked on demand."""

    def __init__(self, pod_counts: Mapping[Any, PodCount]) -> None:
        self._tallies = pod_counts
        self._known: weakref.WeakKeyDictionary[PodClass, tuple[int, list[PodCount]]]
        self._known = weakref.WeakKeyDictionary()

    def to(self, cls: PodClass) -> list[PodCount]:
        if not self._tallies:
            return []
        judged, found = self._known.get(cls, (0, []))
        if judged < len(self._tallies):
            fresh = islice(self._tallies.values(), judged, None)
            found = [*found, *(pod_count for pod_count in fresh if pod_count.matches(cls))]
            self._known[cls] = (len(self._tallies), found)
        return found

    def clear(self) -> None:
        self._known.clear()


def _clash(address: str, addresses: Counter[str]) -> bool:
    return any(
        n > 0 and (not address or not used or used == address) for used, n in addresses.items()
    )
