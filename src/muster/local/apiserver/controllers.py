"""What follows from a write, at once; a real cluster has controllers that do it a little later.

Every namespace has a `default` service account, a role made of other roles has their rules, a
definition has its names when they are free, a quota says what is used. `serve.py` calls `settle`
after every write, before it is answered: whoever has seen an answer sees its consequences. Nothing
to do costs nothing.
"""

from __future__ import annotations

import asyncio
from itertools import product
from typing import TYPE_CHECKING

from muster.errors import StatusError
from muster.local.apiserver import objects
from muster.local.apiserver.access.authorization import GROUP
from muster.local.apiserver.http.requests import Call, Route
from muster.local.apiserver.kinds.crd import condition_is_true
from muster.local.apiserver.objects import selector_matches
from muster.local.apiserver.registry import CRD_COLLECTION

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.store.changes import Change
    from muster.local.apiserver.verbs import Verbs

_DEFINITIONS = "customresourcedefinitions"
_ROLES = f"clusterroles.{GROUP}"


class Controllers:
    """Watches the store for writes with consequences, and writes those."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._store = verbs.store
        self._lonely: set[str] = set()  # namespaces that may lack their account
        self._roles_changed = False
        self._names_changed = False
        self._quotas = verbs.quotas
        self._turn = asyncio.Lock()

    def follow(self) -> None:
        """Look at everything once, and then at every change."""
        self._lonely = {e.key.rpartition("/")[2] for e in self._store.scan("namespaces/")}
        self._roles_changed = True
        self._store.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        collection, namespace, name = change.entry.key.split("/")
        if collection == "namespaces" and not change.deleted and change.before is None:
            self._lonely.add(name)
        elif collection == "serviceaccounts" and change.deleted and name == "default":
            self._lonely.add(namespace)
        elif collection == _ROLES:
            self._roles_changed = True
        elif collection == CRD_COLLECTION:
            self._names_changed = True

    async def settle(self) -> None:
        """Write all that follows from what was written."""
        changed = self._roles_changed or self._names_changed
        if not (self._lonely or changed or self._quotas.stale):
            return
        async with self._turn:
            while self._lonely:
                await self._accompany(self._lonely.pop())
            if self._roles_changed:
                self._roles_changed = False
                await self._join_roles()
            if self._names_changed:
                self._names_changed = False
                await self._name()
            for key, status in self._quotas.take_stale():
                await self._show_usage(key, status)

    async def _accompany(self, namespace: str) -> None:
        if self._store.get(f"serviceaccounts/{namespace}/default") is not None:
            return
        await self._write(
            Route("create", "", "v1", "serviceaccounts", namespace),
            {"metadata": {"name": "default"}},
        )

    async def _join_roles(self) -> None:
        """Roles may be made of roles that are made of roles, but at most of all there are."""
        roles = {e.key: objects.decode(e.value) for e in self._store.scan(f"{_ROLES}/")}
        made = [role for role in roles.values() if role.get("aggregationRule")]
        changed: dict[str, Raw] = {}
        for _, role in product(range(len(made)), made):
            rules = _joined(role, roles)
            if (role.get("rules") or []) != rules:
                role["rules"] = rules
                changed[role["metadata"]["name"]] = role
        for name, role in changed.items():
            role["metadata"].pop("resourceVersion")
            await self._write(Route("update", GROUP, "v1", "clusterroles", "", name), role)

    async def _name(self) -> None:
        """Definitions whose names were taken look again whether they are free."""
        for entry in list(self._store.scan(f"{CRD_COLLECTION}/")):
            crd = objects.decode(entry.value)
            if not condition_is_true(crd["status"]["conditions"], "NamesAccepted"):
                name = crd["metadata"]["name"]
                route = Route("update", "apiextensions.k8s.io", "v1", _DEFINITIONS, "", name)
                await self._write(route, crd)

    async def _show_usage(self, key: str, status: Raw) -> None:
        _, namespace, name = key.split("/")
        entry = self._store.get(key)
        if entry is None:
            return
        quota = objects.decode(entry.value)
        if quota.get("status") == status:
            return
        quota["metadata"].pop("resourceVersion")
        route = Route("update", "", "v1", "resourcequotas", namespace, name, "status")
        await self._write(route, quota | {"status": status})

    async def _write(self, route: Route, body: Raw) -> None:
        resource = self._verbs.registry.find(route.group, route.version, route.plural)
        assert resource is not None
        call = Call(route, resource, body=objects.dump(body), content_type="application/json")
        try:
            await (self._verbs.create(call) if route.verb == "create" else self._verbs.update(call))
        except StatusError as refusal:
            # The namespace is going away, or somebody did it first.
            if refusal.status not in (403, 404, 409):
                raise


def _joined(role: Raw, roles: dict[str, Raw]) -> list[Raw]:
    """The rules of all roles that this one is made of, each once, in the order of names."""
    own = role["metadata"]["name"]
    chosen = (role["aggregationRule"] or {}).get("clusterRoleSelectors") or ()
    rules: list[Raw] = []
    for key in sorted(roles):
        other = roles[key]
        labels = other["metadata"].get("labels") or {}
        if other["metadata"]["name"] == own or not any(
            selector_matches(one, labels) for one in chosen
        ):
            continue
        rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules
