"""Namespaces: when one is deleted, everything in it goes, and then the namespace itself.

Run by `run.py`. Pods go first, so that what they use outlives them. What is left is known from the
inventory, so nothing is asked over and over; only the last look, before the namespace is let go, is
at the API itself. Meanwhile the namespace's conditions say what it waits for.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from muster.api.kinds import EVENTS, NAMESPACES, PODS, Kind
from muster.api.meta import Key, timestamp
from muster.control.loop import RequeueAfter
from muster.errors import NotFound, Unsupported
from muster.local.controllers import conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from typing import Any

    from muster.api.meta import Raw
    from muster.kube.client import Client
    from muster.kube.watch.informer import Informer
    from muster.local.controllers.garbage.inventory import Inventory
    from muster.local.controllers.garbage.owner_graph import Item
    from muster.local.controllers.kinds import Namespace

log = logging.getLogger(__name__)

RAW: Kind[Raw] = NAMESPACES.read_as(dict)
OURS = "kubernetes"
_LOOK_AGAIN = 1.0


class NamespaceDeletion:
    def __init__(
        self,
        client: Client,
        namespaces: Informer[Namespace],
        inventory: Inventory,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._inventory = inventory
        self._clock = clock
        self._swept: set[str] = set()

    def going(self, name: str) -> bool:
        """Whether a namespace of this name is being deleted."""
        found = self._namespaces.get(Key("", name))
        return found is not None and found.metadata.deletion_timestamp is not None

    async def __call__(self, key: Key) -> RequeueAfter | None:
        found = self._namespaces.get(key)
        if found is None or found.metadata.deletion_timestamp is None:
            return None
        if OURS not in found.spec.finalizers:
            return None
        await self._inventory.synced()
        await self._sweep(found)
        left = self._inventory.graph.inside(key.name)
        if left or await self._anything(key.name):
            await self._report(key, left)
            return None if left else RequeueAfter(_LOOK_AGAIN)
        await self._let_go(key)
        self._swept.discard(found.metadata.uid)
        return None

    async def _sweep(self, found: Namespace) -> None:
        """Ask everything to go: pods, and when they are gone all the rest."""
        name, uid = found.metadata.name, found.metadata.uid
        left = self._inventory.graph.inside(name)
        if any(item.kind.resource == PODS.resource for item in left):
            await self._delete_all(PODS, name, left)
            return
        first = uid not in self._swept
        kinds = self._kinds() if first else {item.kind for item in left if not item.deleting}
        for kind in kinds:
            await self._delete_all(kind, name, None if first else left)
        self._swept.add(uid)

    async def _delete_all(self, kind: Kind[Any], name: str, left: list[Item] | None) -> None:
        asked = left is not None and all(
            item.deleting for item in left if item.kind.resource == kind.resource
        )
        if asked:
            return
        try:
            await self._client.delete_collection(kind, name)
        except (NotFound, Unsupported) as error:
            log.info("namespace %s: %s are not deleted: %s", name, kind.resource, error)

    def _kinds(self) -> list[Kind[Any]]:
        """Every kind with objects in namespaces; nobody waits for events, but they go too."""
        namespaced = [kind for kind in self._inventory.kinds.values() if kind.namespaced]
        return [*namespaced, EVENTS]

    async def _anything(self, name: str) -> bool:
        """Whether the API itself shows anything: the inventory may be behind it."""
        for kind in self._kinds():
            try:
                if (await self._client.list(kind.read_as(dict), name)).items:
                    return True
            except NotFound:
                continue
        return False

    async def _report(self, key: Key, left: Iterable[Item]) -> None:
        live = await self._client.get(RAW, key)
        known = (live.get("status") or {}).get("conditions") or []
        rows = deletion_conditions(known, list(left), self._clock())
        if rows != known:
            await self._client.patch(
                RAW, key, {"status": {"conditions": rows}}, subresource="status"
            )

    async def _let_go(self, key: Key) -> None:
        try:
            live = await self._client.get(RAW, key)
            spec = live.get("spec") or {}
            kept = [one for one in spec.get("finalizers") or () if one != OURS]
            await self._client.replace(
                RAW, {**live, "spec": {**spec, "finalizers": kept}}, subresource="finalize"
            )
        except NotFound:
            return  # Somebody else let it go.


def deletion_conditions(known: list[Raw], left: list[Item], now: datetime) -> list[Raw]:
    """The conditions of a namespace in which this is left."""
    counts = Counter(f"{item.kind.plural}.{item.kind.group}" for item in left)
    held = Counter(name for item in left for name in item.meta.finalizers)
    content = ", ".join(f"{name} has {count} resource instances" for name, count in counts.items())
    finalizers = ", ".join(f"{name} in {count} resource instances" for name, count in held.items())
    rows = [
        _row("NamespaceDeletionDiscoveryFailure", "", "ResourcesDiscovered"),
        _row("NamespaceDeletionContentFailure", "", "ContentDeleted"),
        _row(
            "NamespaceContentRemaining",
            f"Some resources are remaining: {content}" if content else "",
            "SomeResourcesRemain" if content else "ContentRemoved",
        ),
        _row(
            "NamespaceFinalizersRemaining",
            f"Some content in the namespace has finalizers remaining: {finalizers}"
            if finalizers
            else "",
            "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
        ),
    ]
    found = known
    for row in rows:
        found = _with(found, {**row, "lastTransitionTime": timestamp(now)})
    return found


def _with(known: list[Raw], row: Raw) -> list[Raw]:
    """Unlike elsewhere, a new message alone is worth a write."""
    old = conditions.find(known, row["type"])
    if old is not None and old.get("message") == row["message"]:
        return conditions.with_condition(known, row)
    return conditions.with_condition(conditions.without(known, row["type"]), row)


_WELL = {
    "ResourcesDiscovered": "All resources successfully discovered",
    "ContentDeleted": "All content successfully deleted, may be waiting on finalization",
    "ContentRemoved": "All content successfully removed",
    "ContentHasNoFinalizers": "All content-preserving finalizers finished",
}


def _row(type_: str, trouble: str, reason: str) -> Raw:
    status = "True" if trouble else "False"
    return {"type": type_, "status": status, "reason": reason, "message": trouble or _WELL[reason]}
