"""The first objects of a cluster: namespaces, default roles, system priority classes.

Only missing objects are created, so the changes of an admin stay.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from localkube.apiserver import codec
from localkube.apiserver.access import default_roles
from localkube.apiserver.http.requests import Call
from localkube.apiserver.kinds.access.role import CLUSTER_ROLES
from localkube.apiserver.kinds.access.role_binding import CLUSTER_ROLE_BINDINGS
from localkube.apiserver.kinds.cluster.namespace import NAMESPACES
from localkube.apiserver.kinds.pods.priority_class import PRIORITY_CLASSES, system_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.verbs import Verbs

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


async def create_missing(verbs: Verbs) -> None:
    """Create the missing objects."""
    # All at once, so that the store writes them in one commit.
    async with asyncio.TaskGroup() as group:
        for resource, obj in _initial_objects():
            if verbs.store.get(codec.key(resource, "", obj["metadata"]["name"])) is None:
                call = Call.internal(resource, "create", obj, agent="kube-apiserver")
                group.create_task(verbs.create(call))


def _initial_objects() -> Iterator[tuple[Resource, Raw]]:
    for name in _NAMESPACES:
        yield NAMESPACES, {"metadata": {"name": name}}
    for role in default_roles.cluster_roles():
        yield CLUSTER_ROLES, role
    for binding in default_roles.cluster_role_bindings():
        yield CLUSTER_ROLE_BINDINGS, binding
    for priority_class in system_classes():
        yield PRIORITY_CLASSES, priority_class
