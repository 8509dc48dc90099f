"""Pods counted by node: those a selector matches, those that carry a term, those that use a port.

Part of the snapshot, read by the filters and scores that couple pods with one another. A count is
made the first time it is asked for and then kept current by the same `take` that uses up room, so
a trial and its undo keep it right at no extra cost. On clusters without such constraints all this
is empty.
"""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from muster.scheduler.podclass import ABSENT, PodClass, PodTerm, Port, Vector, selector_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Use(NamedTuple):
    """Some pods of a class on a row; `n` is negative where they leave."""

    cls: PodClass
    row: int
    n: int = 1
    terminating: bool = False


@dataclass
class Tally:
    """How many pods on each node one term matches; `living` leaves out those being deleted."""

    term: PodTerm
    living: bool
    namespaces: Mapping[str, Mapping[str, str]]
    counts: Vector
    _answers: weakref.WeakKeyDictionary[PodClass, bool] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def matches(self, cls: PodClass) -> bool:
        """Whether pods of that class are counted."""
        answer = self._answers.get(cls)
        if answer is None:
            chosen = self._speaks_of(cls.namespace)
            answer = chosen and selector_of(self.term.selector).matches(cls.labels)
            self._answers[cls] = answer
        return answer

    def take(self, use: Use) -> None:
        if self.matches(use.cls) and not (self.living and use.terminating):
            self.counts[use.row] += use.n

    def _speaks_of(self, namespace: str) -> bool:
        if namespace in self.term.namespaces:
            return True
        return selector_of(self.term.chooser).matches(self.namespaces.get(namespace, {}))


class Tallies:
    """All counts of one snapshot."""

    def __init__(self) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.size = 0
        self.carriers: dict[PodTerm, Vector] = {}
        self._ports: dict[tuple[str, int], dict[int, Counter[str]]] = {}
        self._matching: dict[tuple[PodTerm, bool], Tally] = {}

    def take(self, use: Use) -> None:
        """Count pods in, or out where `n` is negative."""
        for tally in self._matching.values():
            tally.take(use)
        for term in use.cls.anti_affinity:
            self._carrying(term)[use.row] += use.n
        for port in use.cls.ports:
            users = self._ports.setdefault((port.protocol, port.number), {})
            users.setdefault(use.row, Counter())[port.address] += use.n

    def rebuild(self, size: int, uses: Iterable[Use]) -> None:
        """Start again: rows have moved, or pods have been classified anew."""
        self.size = size
        self.carriers, self._ports, self._matching = {}, {}, {}
        for use in uses:
            self.take(use)

    def matching(self, term: PodTerm, uses: Iterable[Use], *, living: bool = False) -> Tally:
        """The count for a term; `uses` is everything counted so far, read only for a new one."""
        key = (term._replace(topology=""), living)
        found = self._matching.get(key)
        if found is None:
            counts = np.zeros(self.size, np.int64)
            found = self._matching[key] = Tally(key[0], living, self.namespaces, counts)
            for use in uses:
                found.take(use)
        return found

    def namespace_changed(self) -> None:
        """A namespace's labels changed: counts that choose namespaces by label are made anew."""
        self._matching = {k: t for k, t in self._matching.items() if t.term.chooser == ABSENT}

    def rows_using(self, port: Port) -> list[int]:
        """Rows where that port cannot be had: the same number on the same or on every address."""
        users = self._ports.get((port.protocol, port.number), {})
        return [row for row, addresses in users.items() if _clash(port.address, addresses)]

    def applies(self, carried: PodTerm, cls: PodClass) -> bool:
        """Whether a term that some pods carry speaks of this class."""
        empty = np.zeros(0, np.int64)
        return Tally(carried, False, self.namespaces, empty).matches(cls)

    def _carrying(self, term: PodTerm) -> Vector:
        found = self.carriers.get(term)
        if found is None:
            found = self.carriers[term] = np.zeros(self.size, np.int64)
        return found


def _clash(address: str, addresses: Counter[str]) -> bool:
    return any(
        n > 0 and (not address or not used or used == address) for used, n in addresses.items()
    )
