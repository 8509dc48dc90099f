"""What every cluster begins with: namespaces, default roles, the system's priority classes.

Called by `serve.py` at start; creates only what is missing, so what an admin changed stays.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from muster.local.apiserver import objects
from muster.local.apiserver.access import default_roles
from muster.local.apiserver.access.authorization import GROUP
from muster.local.apiserver.http.requests import Call, Route
from muster.local.apiserver.kinds import priority_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.verbs import Verbs

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


async def create_missing(verbs: Verbs) -> None:
    """Create what is missing, all in one commit."""
    async with asyncio.TaskGroup() as group:
        for call in _missing(verbs):
            group.create_task(verbs.create(call))


def _missing(verbs: Verbs) -> Iterator[Call]:
    for group, version, plural, obj in _initial():
        resource = verbs.registry.find(group, version, plural)
        assert resource is not None
        if verbs.store.get(objects.key(resource, "", obj["metadata"]["name"])) is None:
            route = Route("create", group, version, plural)
            yield Call(route, resource, body=objects.dump(obj), content_type="application/json")


def _initial() -> Iterator[tuple[str, str, str, Raw]]:
    for name in NAMESPACES:
        yield "", "v1", "namespaces", {"metadata": {"name": name}}
    for role in default_roles.cluster_roles():
        yield GROUP, "v1", "clusterroles", role
    for binding in default_roles.cluster_role_bindings():
        yield GROUP, "v1", "clusterrolebindings", binding
    for name, value in priority_class.SYSTEM.items():
        told = priority_class.DESCRIPTIONS[name]
        found = {"metadata": {"name": name}, "value": value, "description": told}
        yield priority_class.GROUP, "v1", "priorityclasses", found
