"""One informer per kind, shared by all controllers.

Indexes find the objects of an owner, a namespace or a node, and objects without a controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from muster.api.kinds import SERVICES
from muster.api.selectors import from_labels
from muster.errors import InvalidSelector
from muster.kube.watch.informer import Informer
from muster.local.controllers import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from muster.api.meta import HasMetadata, Key, ObjectMeta
    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change
    from muster.local.controllers.expectations import Expectations

    T = TypeVar("T", bound=HasMetadata)
else:
    T = TypeVar("T")

OWNER, ORPHANS, NODE, NAMESPACE = "owner", "orphans", "node", "namespace"


class SharedInformers:
    def __init__(self, client: Client) -> None:
        owned = {OWNER: _owner, ORPHANS: _orphan, NAMESPACE: _namespace}
        by_namespace = {NAMESPACE: _namespace}
        self.pods = Informer(client, kinds.PODS, indexes={**owned, NODE: _node})
        self.sets = Informer(client, kinds.REPLICA_SETS, indexes=owned)
        self.deployments = Informer(client, kinds.DEPLOYMENTS, indexes=by_namespace)
        self.jobs = Informer(client, kinds.JOBS, indexes=by_namespace)
        self.services = Informer(client, SERVICES, indexes=by_namespace)
        self.nodes = Informer(client, kinds.NODES)
        self.namespaces = Informer(client, kinds.NAMESPACES)

    def all(self) -> list[Informer[Any]]:
        return list(vars(self).values())


def candidates(informer: Informer[T], owner: ObjectMeta) -> list[T]:
    """The objects of an owner, and those of its namespace without a controller."""
    return informer.by(OWNER, owner.uid) + informer.by(ORPHANS, owner.namespace)


def possible_owners(informer: Informer[Any], one: HasMetadata) -> Iterator[Key]:
    """The owners whose selector matches an object, so that they may adopt it."""
    for owner in informer.by(NAMESPACE, one.metadata.namespace):
        try:
            if from_labels(owner.spec.selector).matches(one.metadata.labels):
                yield owner.metadata.key
        except InvalidSelector:
            continue


def on_owned(
    owner_kind: str,
    expectations: Expectations,
    possible_owners: Callable[[T], Iterable[Key]],
    wake: Callable[[Key], None],
) -> Callable[[Change[T]], None]:
    """A listener for objects that owners of one kind control.

    It wakes the owners before and after a change. An object without a controller wakes its
    `possible_owners`.
    """

    def listen(change: Change[T]) -> None:
        for one in (change.old, change.new):
            controller = one.metadata.controller if one is not None else None
            if one is not None and controller is not None and controller.kind == owner_kind:
                meta = change.current.metadata
                expectations.observed(controller.uid, meta, gone=change.new is None)
                wake(one.metadata.key._replace(name=controller.name))
        if change.new is not None and change.new.metadata.controller is None:
            for key in possible_owners(change.new):
                wake(key)

    return listen


def _owner(one: HasMetadata) -> Iterable[str]:
    controller = one.metadata.controller
    return () if controller is None else (controller.uid,)


def _orphan(one: HasMetadata) -> Iterable[str]:
    return (one.metadata.namespace,) if one.metadata.controller is None else ()


def _namespace(one: HasMetadata) -> Iterable[str]:
    return (one.metadata.namespace,)


def _node(pod: kinds.Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
