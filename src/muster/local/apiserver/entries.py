"""A stored object, and one change of it: what the store hands out and everybody else passes on."""

from __future__ import annotations

from typing import NamedTuple


class Entry:
    """One object at one revision. `facts` is a place for whoever decodes it to keep the result."""

    __slots__ = ("facts", "key", "revision", "value")

    def __init__(self, key: str, revision: int, value: bytes) -> None:
        self.key = key
        self.revision = revision
        self.value = value
        self.facts: object = None


class Change(NamedTuple):
    """One write as watchers see it: added without `before`, else modified or deleted."""

    entry: Entry
    before: Entry | None
    deleted: bool
