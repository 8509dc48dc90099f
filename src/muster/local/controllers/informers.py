"""The objects that the workload controllers watch, each kind once for all of them.

Made by `run.py`. Indexes find what belongs to an owner, what nobody controls in a namespace, and
what is on a node, without a scan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from muster.api.selectors import from_labels
from muster.errors import InvalidSelector
from muster.kube.watch.informer import Informer
from muster.local.controllers.kinds import (
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    Deployment,
    Job,
    Namespace,
    Node,
    Pod,
    ReplicaSet,
    Service,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from muster.api.kinds import Kind
    from muster.api.meta import HasMetadata, Key, ObjectMeta
    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change
    from muster.local.controllers.expectations import Expectations

    T = TypeVar("T", bound=HasMetadata)
else:
    T = TypeVar("T")

OWNER, ORPHANS, NODE, NAMESPACE = "owner", "alone", "node", "space"


class SharedInformers:
    """One informer per kind."""

    def __init__(self, client: Client) -> None:
        owned = {OWNER: _owner, ORPHANS: _alone, NAMESPACE: _space}
        self.pods: Informer[Pod] = Informer(client, PODS, indexes={**owned, NODE: _node})
        self.sets: Informer[ReplicaSet] = Informer(client, REPLICA_SETS, indexes=owned)
        self.deployments: Informer[Deployment] = _by_space(client, DEPLOYMENTS)
        self.jobs: Informer[Job] = _by_space(client, JOBS)
        self.services: Informer[Service] = _by_space(client, SERVICES)
        self.nodes: Informer[Node] = Informer(client, NODES)
        self.namespaces: Informer[Namespace] = Informer(client, NAMESPACES)

    def informers(self) -> list[Informer[Any]]:
        return [
            self.pods,
            self.sets,
            self.deployments,
            self.jobs,
            self.services,
            self.nodes,
            self.namespaces,
        ]


def _by_space(client: Client, kind: Kind[Any]) -> Informer[Any]:
    return Informer(client, kind, indexes={NAMESPACE: _space})


def candidates(informer: Informer[T], owner: ObjectMeta) -> list[T]:
    """What an owner may claim: what is its own, and what nobody controls in its namespace."""
    return informer.by(OWNER, owner.uid) + informer.by(ORPHANS, owner.namespace)


def suitors(informer: Informer[Any], one: HasMetadata) -> Iterator[Key]:
    """The owners whose selector matches an object, which may therefore want to adopt it."""
    for owner in informer.by(NAMESPACE, one.metadata.namespace):
        try:
            if from_labels(owner.spec.selector).matches(one.metadata.labels):
                yield owner.metadata.key
        except InvalidSelector:
            continue


def on_owned(
    owner_kind: str,
    expect: Expectations,
    suitors: Callable[[T], Iterable[Key]],
    wake: Callable[[Key], None],
) -> Callable[[Change[T]], None]:
    """A listener for objects that controllers of one kind own.

    It wakes the owner before and after the change. An object without any controller wakes its
    `suitors`: those who may want to adopt it.
    """

    def listen(change: Change[T]) -> None:
        for one in (change.old, change.new):
            controller = one.metadata.controller if one is not None else None
            if one is not None and controller is not None and controller.kind == owner_kind:
                expect.saw(controller.uid, change.current.metadata, gone=change.new is None)
                wake(one.metadata.key._replace(name=controller.name))
        if change.new is not None and change.new.metadata.controller is None:
            for key in suitors(change.new):
                wake(key)

    return listen


def _owner(one: HasMetadata) -> Iterable[str]:
    controller = one.metadata.controller
    return () if controller is None else (controller.uid,)


def _alone(one: HasMetadata) -> Iterable[str]:
    return (one.metadata.namespace,) if one.metadata.controller is None else ()


def _space(one: HasMetadata) -> Iterable[str]:
    return (one.metadata.namespace,)


def _node(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
