"""The live objects of one source: of all namespaces, or of those that the user may read.

A user without the right to list a kind in all namespaces has an informer per namespace instead.
The informer of all namespaces goes on to ask, so a right that is granted later is used.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from kubekit.rights import READ, MissingRight, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Key
    from kubekit.watch.informer import Informer

T = TypeVar("T")


class Objects(Generic[T]):
    """The live objects of one source."""

    def __init__(self, whole: Informer[T]) -> None:
        self.kind: Kind[T] = whole.kind
        self._whole = whole
        self._parts: dict[str, Informer[T]] = {}

    @property
    def is_divided(self) -> bool:
        return bool(self._parts)

    @property
    def informers(self) -> Sequence[Informer[T]]:
        """Those whose objects are shown."""
        if self._whole.refused and self._parts:
            return tuple(self._parts.values())
        return (self._whole,)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are shown, if not all are."""
        if not self._whole.refused:
            return ()
        return tuple(name for name, part in self._parts.items() if not part.refused)

    @property
    def missing_right(self) -> str:
        """Why nothing is shown, without the rule that would mend it; usually empty."""
        refused = self._whole.refused
        if refused is None or self.namespaces:
            return ""
        return refused.missing_right.problem if refused.missing_right else str(refused)

    @property
    def missing_rule(self) -> str:
        """The smallest fix for the missing right."""
        return MissingRight("you", rule([self.kind], READ)).fix

    @property
    def stale_reason(self) -> str:
        """Why the objects may be out of date, in one sentence; usually empty."""
        return next((i.stale_reason for i in self.informers if i.stale_reason), "")

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self.informers)

    def divide(self, namespaces: Sequence[str], start: Callable[[str], Informer[T]]) -> None:
        """Watch these namespaces, each with an informer of its own."""
        self._parts = {name: start(name) for name in namespaces}

    def get(self, key: Key) -> T | None:
        return next((found for i in self.informers if (found := i.get(key)) is not None), None)

    def all(self) -> Collection[T]:
        """A live view; copy it before awaiting."""
        informers = self.informers
        if len(informers) == 1:
            return informers[0].all()
        return list(chain.from_iterable(informer.all() for informer in informers))

    def by(self, index: str, value: str) -> list[T]:
        return [item for informer in self.informers for item in informer.by(index, value)]
