"""What a controller has done that its informers do not show yet, per owner.

A controller that counts its pods right after it made some would make them again. It asks `pending`
first and does nothing while an answer is out; the event that brings it calls the controller anyway.
Creations are noted by name and deletions by UID *before* they are sent: no event comes too early.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.meta import ObjectMeta

TIMEOUT = 30.0
"""Seconds after which we no longer wait for an event that never came."""


class Expectations:
    """`clock` counts seconds, from anywhere."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, dict[str, float]] = {}

    def creation(self, owner: str, name: str) -> None:
        self._note(owner, f"+{name}")

    def deletion(self, owner: str, uid: str) -> None:
        self._note(owner, f"-{uid}")

    def failed(self, owner: str, what: str) -> None:
        """The call named so, by name or UID, did nothing: no event will come."""
        self._forget(owner, f"+{what}")
        self._forget(owner, f"-{what}")

    def saw(self, owner: str, meta: ObjectMeta, *, gone: bool) -> None:
        """An informer shows this object of the owner's."""
        if owner not in self._until:
            return
        self._forget(owner, f"+{meta.name}")
        if gone or meta.deletion_timestamp is not None:
            self._forget(owner, f"-{meta.uid}")

    def pending(self, owner: str) -> float | None:
        """None if informers show all we did; else the seconds to wait for them at most."""
        noted = self._until.get(owner)
        if not noted:
            return None
        left = max(noted.values()) - self._clock()
        if left > 0:
            return left
        del self._until[owner]
        return None

    def forget(self, owner: str) -> None:
        """The owner is no more."""
        self._until.pop(owner, None)

    def _note(self, owner: str, what: str) -> None:
        self._until.setdefault(owner, {})[what] = self._clock() + TIMEOUT

    def _forget(self, owner: str, what: str) -> None:
        noted = self._until.get(owner)
        if noted is not None:
            noted.pop(what, None)
            if not noted:
                del self._until[owner]
