"""All resources by group, version and plural: the built-in ones and the resources of CRDs.

A CRD takes effect as soon as its write is durable, before the writer gets its answer.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from localkube.apiserver import codec
from localkube.apiserver.kinds.custom.crd import CRDS
from localkube.apiserver.kinds.custom.custom_resource import KnownKinds, resources_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.changes import Change
    from localkube.apiserver.store.store import Store


class Registry:
    """The resources that the server serves now."""

    def __init__(self, builtin: Iterable[Resource], known: KnownKinds | None = None) -> None:
        self._known = known or KnownKinds()
        self._builtin = {(r.group, r.version, r.plural): r for r in builtin}
        self._custom: dict[str, list[Resource]] = {}
        self._index = dict(self._builtin)

    def follow(self, store: Store) -> None:
        """Serve the resources of the CRDs in the store, now and after every change."""
        store.subscribe(self._changed, CRDS.collection)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource, if it is served in that version."""
        return self._index.get((group, version, plural))

    def all(self) -> Iterator[Resource]:
        """Every resource in every version, built-in first."""
        return iter(self._index.values())

    def _changed(self, change: Change) -> None:
        if change.deleted:
            self._custom.pop(change.entry.key, None)
        else:
            crd = codec.decode(change.entry.value)
            self._custom[change.entry.key] = list(resources_of(crd, self._known))
        self._index = dict(self._builtin)
        for r in chain.from_iterable(self._custom.values()):
            # A CRD never replaces a built-in resource or one of an older CRD.
            self._index.setdefault((r.group, r.version, r.plural), r)
