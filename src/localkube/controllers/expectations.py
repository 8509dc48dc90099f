"""Writes of a controller that its informers do not show yet, per owner.

A controller that counts its pods right after it created some would create them again. It calls
`pending` first and does nothing while an event is outstanding; that event calls the controller
again. Creations are recorded by name and deletions by UID *before* they are sent, so that no event
can come too early.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubekit.objects.meta import ObjectMeta

TIMEOUT = 30.0
"""Seconds after which we no longer wait for an event."""


class Expectations:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deadlines: dict[str, dict[str, float]] = {}

    def creation(self, owner: str, name: str) -> contextlib.AbstractContextManager[None]:
        """Expect the event of the creation sent inside; if sending fails, no event will come."""
        return self._write(owner, f"+{name}")

    def deletion(self, owner: str, uid: str) -> contextlib.AbstractContextManager[None]:
        """The same for a deletion."""
        return self._write(owner, f"-{uid}")

    @contextlib.contextmanager
    def _write(self, owner: str, write: str) -> Iterator[None]:
        self._deadlines.setdefault(owner, {})[write] = self._clock() + TIMEOUT
        try:
            yield
        except BaseException:
            self._forget(owner, write)
            raise

    def observed(self, owner: str, meta: ObjectMeta, *, gone: bool) -> None:
        """An informer shows this object of the owner."""
        if owner not in self._deadlines:
            return
        self._forget(owner, f"+{meta.name}")
        if gone or meta.deletion_timestamp is not None:
            self._forget(owner, f"-{meta.uid}")

    def pending(self, owner: str) -> float | None:
        """None if informers show all writes; else the seconds to wait for them at most."""
        deadlines = self._deadlines.get(owner)
        if not deadlines:
            return None
        left = max(deadlines.values()) - self._clock()
        if left > 0:
            return left
        del self._deadlines[owner]
        return None

    def forget(self, owner: str) -> None:
        """The owner was deleted."""
        self._deadlines.pop(owner, None)

    def _forget(self, owner: str, write: str) -> None:
        deadlines = self._deadlines.get(owner)
        if deadlines is not None:
            deadlines.pop(write, None)
            if not deadlines:
                del self._deadlines[owner]
