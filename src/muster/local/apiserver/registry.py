"""All resources by group, version and plural: the built-in ones, and those that CRDs add.

A CRD takes effect in the same turn of the event loop in which its write becomes durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import codec
from muster.local.apiserver.kinds.crd import CRDS
from muster.local.apiserver.kinds.custom_resource import resources_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster.local.apiserver.resource import Resource
    from muster.local.apiserver.store.changes import Change
    from muster.local.apiserver.store.store import Store


class Registry:
    """The resources that the server serves now."""

    def __init__(self, builtin: Iterable[Resource]) -> None:
        self._builtin = {(r.group, r.version, r.plural): r for r in builtin}
        self._custom: dict[str, list[Resource]] = {}
        self._index = dict(self._builtin)

    def follow(self, store: Store) -> None:
        """Learn the CRDs that are stored, and each one as it is written."""
        for entry in store.scan(f"{CRDS.collection}/"):
            self._custom[entry.key] = list(resources_of(codec.decode(entry.value)))
        self._rebuild()
        store.subscribe(self._changed, CRDS.collection)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource, if it is served in that version."""
        return self._index.get((group, version, plural))

    def all(self) -> Iterator[Resource]:
        """Every resource in every version, built-in first."""
        return iter(self._index.values())

    def _changed(self, change: Change) -> None:
        entry = change.entry
        if change.deleted:
            self._custom.pop(entry.key, None)
        else:
            self._custom[entry.key] = list(resources_of(codec.decode(entry.value)))
        self._rebuild()

    def _rebuild(self) -> None:
        self._index = dict(self._builtin)
        for resources in self._custom.values():
            for resource in resources:
                self._index.setdefault(
                    (resource.group, resource.version, resource.plural), resource
                )
