"""What namespaces need: every one has the CA of the API server, and a deleted one is emptied first.

The CA is in the ConfigMap `kube-root-ca.crt`, which service account volumes contain. If it is
changed or deleted, it is written again.

In a namespace that is being deleted, pods are deleted first, so that the objects they use outlive
them. The inventory shows the objects that are left, so nothing is polled; only the last check,
before the finalizer is removed, lists the API itself. Until then the namespace's conditions count
the objects that are left.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubekit.control.loop import RequeueAfter
from kubekit.objects import conditions
from kubekit.objects.kinds import CONFIG_MAPS, EVENTS, NAMESPACES, PODS, Kind
from kubekit.objects.meta import Key, Raw, merge_patch
from kubekit.request_errors import AlreadyExists, Forbidden, NotFound, Unsupported
from kubekit.watch.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from typing import Any

    from kubekit.client.client import Client
    from kubekit.objects.core import ConfigMap
    from localkube.controllers.garbage_collector import Inventory
    from localkube.controllers.owner_graph import Item
    from localkube.controllers.shared_informers import SharedInformers
    from localkube.controllers.workloads import Namespace

NAME = "kube-root-ca.crt"
_ANNOTATIONS = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the"
    " kube-apiserver when using internal endpoints such as the internal service IP or"
    " kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
}


class RootCaPublisher:
    """Keys are namespaces."""

    def __init__(self, client: Client, informers: SharedInformers, certificate: str) -> None:
        self.maps: Informer[ConfigMap] = Informer(
            client, CONFIG_MAPS, fields=f"metadata.name={NAME}"
        )
        self._client = client
        self._informers = informers
        self._data = {"ca.crt": certificate}

    def connect(self, wake: Callable[[Key], None]) -> None:
        self._informers.namespaces.subscribe(lambda change: wake(change.current.metadata.key))
        self.maps.subscribe(lambda change: wake(Key("", change.current.metadata.namespace)))

    async def reconcile(self, key: Key) -> None:
        namespace = self._informers.namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        stored = self.maps.get(Key(key.name, NAME))
        # The namespace may have been deleted, or our watch may be behind.
        with contextlib.suppress(AlreadyExists, NotFound, Forbidden):
            if stored is None:
                meta = {"name": NAME, "namespace": key.name, "annotations": _ANNOTATIONS}
                await self._client.create(CONFIG_MAPS, {"metadata": meta, "data": self._data})
            elif stored.data != self._data:
                change = {"data": merge_patch(stored.data, self._data)}
                await self._client.patch(CONFIG_MAPS, stored.metadata.key, change)


log = logging.getLogger(__name__)

_RAW: Kind[Raw] = NAMESPACES.read_as(dict)
FINALIZER = "kubernetes"
_CHECK_AGAIN = 1.0
"""Seconds until the API is listed again, if it has objects that the inventory does not show."""
_NO_PROBLEM = {
    "NamespaceDeletionDiscoveryFailure": (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}
"""Reason and message of each condition while it is False."""


@dataclass(frozen=True)
class NamespaceDeletion:
    client: Client
    namespaces: Informer[Namespace]
    inventory: Inventory
    clock: Callable[[], datetime]
    _emptied: set[str] = field(default_factory=set)

    def is_terminating(self, name: str) -> bool:
        namespace = self.namespaces.get(Key("", name))
        return namespace is not None and namespace.metadata.deletion_timestamp is not None

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        namespace = self.namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return None
        if FINALIZER not in namespace.spec.finalizers:
            return None
        await self.inventory.synced()
        await self._empty(namespace)
        left = self.inventory.graph.inside(key.name)
        if left or await self._has_objects(key.name):
            await self._report(key, left)
            return None if left else RequeueAfter(_CHECK_AGAIN)
        await self._remove_finalizer(key)
        self._emptied.discard(namespace.metadata.uid)
        return None

    async def _empty(self, namespace: Namespace) -> None:
        """Delete the pods, and when they are gone everything else."""
        name, uid = namespace.metadata.name, namespace.metadata.uid
        left = self.inventory.graph.inside(name)
        pods = [item for item in left if item.kind.resource == PODS.resource]
        if pods:
            if not all(item.deleting for item in pods):
                await self._delete_all(PODS, name)
            return
        # The first time every kind is asked for, because the inventory may be behind; later only
        # kinds of which it shows an object.
        first = uid not in self._emptied
        kinds = self._kinds() if first else {item.kind for item in left if not item.deleting}
        for kind in kinds:
            await self._delete_all(kind, name)
        self._emptied.add(uid)

    async def _delete_all(self, kind: Kind[Any], name: str) -> None:
        try:
            await self.client.delete_collection(kind, name)
        except (NotFound, Unsupported) as error:
            log.info("namespace %s: %s are not deleted: %s", name, kind.resource, error)

    def _kinds(self) -> list[Kind[Any]]:
        """Every namespaced kind. Events are not in the inventory, but are deleted too."""
        namespaced = [kind for kind in self.inventory.kinds.values() if kind.namespaced]
        return [*namespaced, EVENTS]

    async def _has_objects(self, name: str) -> bool:
        """Whether the API itself lists any object: the inventory may be behind."""
        for kind in self._kinds():
            try:
                if (await self.client.list(kind.read_as(dict), name)).items:
                    return True
            except NotFound:
                continue
        return False

    async def _report(self, key: Key, left: Iterable[Item]) -> None:
        live = await self.client.get(_RAW, key)
        known = (live.get("status") or {}).get("conditions") or []
        new = deletion_conditions(known, list(left), self.clock())
        if new != known:
            await self.client.patch(
                _RAW, key, {"status": {"conditions": new}}, subresource="status"
            )

    async def _remove_finalizer(self, key: Key) -> None:
        with contextlib.suppress(NotFound):
            live = await self.client.get(_RAW, key)
            spec = live.get("spec") or {}
            others = [name for name in spec.get("finalizers") or () if name != FINALIZER]
            await self.client.replace(
                _RAW, {**live, "spec": {**spec, "finalizers": others}}, subresource="finalize"
            )


def deletion_conditions(known: list[Raw], left: list[Item], now: datetime) -> list[Raw]:
    """The conditions of a namespace in which these objects are left."""
    counts = Counter(f"{item.kind.plural}.{item.kind.group}" for item in left)
    held = Counter(name for item in left for name in item.meta.finalizers)
    problems = {}
    if counts:
        rest = ", ".join(f"{name} has {count} resource instances" for name, count in counts.items())
        message = f"Some resources are remaining: {rest}"
        problems["NamespaceContentRemaining"] = ("SomeResourcesRemain", message)
    if held:
        rest = ", ".join(f"{name} in {count} resource instances" for name, count in held.items())
        message = f"Some content in the namespace has finalizers remaining: {rest}"
        problems["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    for type_, no_problem in _NO_PROBLEM.items():
        status = "True" if type_ in problems else "False"
        new = conditions.new_condition(type_, status, *problems.get(type_, no_problem), now)
        known = _with_condition(known, new)
    return known


def _with_condition(known: list[Raw], new: Raw) -> list[Raw]:
    """Unlike for other conditions, a new message alone is written: it counts the objects."""
    old = conditions.find(known, new["type"])
    if old is not None and old.get("message") == new["message"]:
        return conditions.with_condition(known, new)
    return conditions.with_condition(conditions.without(known, new["type"]), new)
