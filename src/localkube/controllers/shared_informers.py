"""One informer per kind, shared by all controllers.

Every watch costs the API server a stream and this process a copy of all objects, so there is one
per kind. Indexes find the objects of an owner, a namespace or a node, and objects without a
controller, without a walk over all of them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from kubekit.objects.kinds import SERVICES
from kubekit.objects.meta import HasMetadata, Key, ObjectMeta
from kubekit.objects.selectors import InvalidSelector, from_labels
from kubekit.watch.informer import Informer
from localkube.controllers import workloads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.client.client import Client

T = TypeVar("T", bound=HasMetadata)
OWNER, ORPHANS, NODE, NAMESPACE = "owner", "orphans", "node", "namespace"


class SharedInformers:
    def __init__(self, client: Client) -> None:
        owned = {OWNER: _owner, ORPHANS: _orphan, NAMESPACE: _namespace}
        by_namespace = {NAMESPACE: _namespace}
        self.pods = Informer(client, workloads.PODS, indexes={**owned, NODE: _node})
        self.sets = Informer(client, workloads.REPLICA_SETS, indexes=owned)
        self.deployments = Informer(client, workloads.DEPLOYMENTS, indexes=by_namespace)
        self.stateful_sets = Informer(client, workloads.STATEFUL_SETS, indexes=by_namespace)
        self.daemon_sets = Informer(client, workloads.DAEMON_SETS, indexes=by_namespace)
        self.revisions = Informer(client, workloads.CONTROLLER_REVISIONS, indexes=owned)
        self.jobs = Informer(client, workloads.JOBS, indexes=owned)
        self.cron_jobs = Informer(client, workloads.CRON_JOBS)
        self.budgets = Informer(client, workloads.DISRUPTION_BUDGETS, indexes=by_namespace)
        # Raw: a missing storage class means the default class, an empty one means none.
        self.claims = Informer(client, workloads.CLAIMS)
        self.services = Informer(client, SERVICES, indexes=by_namespace)
        self.nodes = Informer(client, workloads.NODES)
        self.namespaces = Informer(client, workloads.NAMESPACES)

    def all(self) -> list[Informer[Any]]:
        return list(vars(self).values())


def candidates(informer: Informer[T], owner: ObjectMeta) -> list[T]:
    """The objects of an owner, and the objects of its namespace that have no controller."""
    return informer.by(OWNER, owner.uid) + informer.by(ORPHANS, owner.namespace)


def possible_owners(informer: Informer[Any], orphan: HasMetadata) -> Iterator[Key]:
    """The owners whose selector matches an object, so that they may adopt it."""
    for owner in informer.by(NAMESPACE, orphan.metadata.namespace):
        # One owner with a bad selector must not keep the others from adopting.
        with contextlib.suppress(InvalidSelector):
            if from_labels(owner.spec.selector).matches(orphan.metadata.labels):
                yield owner.metadata.key


def _owner(obj: HasMetadata) -> Iterable[str]:
    controller = obj.metadata.controller
    return () if controller is None else (controller.uid,)


def _orphan(obj: HasMetadata) -> Iterable[str]:
    return (obj.metadata.namespace,) if obj.metadata.controller is None else ()


def _namespace(obj: HasMetadata) -> Iterable[str]:
    return (obj.metadata.namespace,)


def _node(pod: workloads.Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
