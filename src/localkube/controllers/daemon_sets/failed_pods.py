"""When the next failed pod of a node may be deleted.

A pod that fails at once, because its node refuses it, would be deleted and created without end.
Each deletion doubles the time until the next one on the same node, from 1 second to 15 minutes. A
node without failures for twice the longest time starts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_DELAY, LONGEST_DELAY = 1.0, 900.0


class _Deletion(NamedTuple):
    at: float
    delay: float


class FailedPods:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deletions: dict[str, dict[str, _Deletion]] = {}

    def deleted(self, owner: str, node: str) -> None:
        """A failed pod of the owner is being deleted from a node."""
        now, nodes = self._clock(), self._deletions.setdefault(owner, {})
        last = nodes.get(node)
        delay = min(last.delay * 2, LONGEST_DELAY) if last is not None else FIRST_DELAY
        nodes[node] = _Deletion(now, delay)

    def in_backoff(self, owner: str) -> frozenset[str]:
        """The nodes on which failed pods of the owner stay for now."""
        now = self._clock()
        kept = {
            node: deletion
            for node, deletion in self._deletions.pop(owner, {}).items()
            if now - deletion.at < 2 * LONGEST_DELAY
        }
        if kept:
            self._deletions[owner] = kept
        return frozenset(node for node, last in kept.items() if now - last.at < last.delay)

    def next_in(self, owner: str) -> float | None:
        """Seconds until the next node leaves its backoff."""
        now = self._clock()
        waits = (d.at + d.delay - now for d in self._deletions.get(owner, {}).values())
        return min((wait for wait in waits if wait > 0), default=None)
