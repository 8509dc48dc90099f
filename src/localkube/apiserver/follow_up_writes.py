"""Writes that follow from other writes; in a real cluster, small controllers make them.

Every namespace has a `default` service account, an aggregated role has the rules of its parts, a
CRD gets its names when they are free, a quota shows its usage. The server makes the pending writes
after every request, before the answer: a client that sees the answer sees the consequences.
"""

from __future__ import annotations

import asyncio
from itertools import product
from typing import TYPE_CHECKING

from kubekit.request_errors import StatusError
from localkube.apiserver import codec
from localkube.apiserver.codec import selector_matches
from localkube.apiserver.http.requests import Call
from localkube.apiserver.kinds.definitions import CRDS
from localkube.apiserver.kinds.namespaces_nodes_events import NAMESPACES
from localkube.apiserver.kinds.quotas_and_limit_ranges import RESOURCE_QUOTAS
from localkube.apiserver.kinds.roles_and_accounts import CLUSTER_ROLES, SERVICE_ACCOUNTS
from localkube.apiserver.views.cells import condition_is_true

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.collection import Change
    from localkube.apiserver.verbs import Verbs


class FollowUpWrites:
    """Listens to the store, and makes the writes that follow from its changes."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._store = verbs.store
        self._quotas = verbs.quotas
        self._without_account: set[str] = set()  # namespaces that may lack their account
        self._changed: set[str] = set()  # of the collections whose objects depend on each other
        self._lock = asyncio.Lock()
        self.pending = False
        """Whether `run_pending` has a write to make, besides stale quotas."""

        self._store.subscribe(self._namespace_changed, NAMESPACES.collection)
        self._store.subscribe(self._account_changed, SERVICE_ACCOUNTS.collection)
        self._store.subscribe(self._other_changed, CLUSTER_ROLES.collection, CRDS.collection)

    def _namespace_changed(self, change: Change) -> None:
        if change.before is None:
            self._without_account.add(change.entry.key.rpartition("/")[2])
            self.pending = True

    def _account_changed(self, change: Change) -> None:
        _, namespace, name = change.entry.key.split("/")
        if change.deleted and name == "default":
            self._without_account.add(namespace)
            self.pending = True

    def _other_changed(self, change: Change) -> None:
        self._changed.add(change.entry.key.partition("/")[0])
        self.pending = True

    async def run_pending(self) -> None:
        """Make the writes that follow from the writes so far."""
        async with self._lock:
            while self._without_account:
                await self._create_account(self._without_account.pop())
            changed, self._changed = self._changed, set()
            if CLUSTER_ROLES.collection in changed:
                await self._aggregate_roles()
            if CRDS.collection in changed:
                await self._accept_names()
            for key, status in self._quotas.take_stale():
                await self._write_usage(key, status)
            # Only now: requests that have written since wait for the lock before they answer.
            self.pending = bool(self._without_account or self._changed)

    async def _create_account(self, namespace: str) -> None:
        if self._store.get(codec.key(SERVICE_ACCOUNTS, namespace, "default")) is None:
            account = {"metadata": {"name": "default", "namespace": namespace}}
            await self._write(SERVICE_ACCOUNTS, "create", account)

    async def _aggregate_roles(self) -> None:
        """Write the rules of aggregated roles."""
        entries = self._store.scan(f"{CLUSTER_ROLES.collection}/")
        roles = {entry.key: codec.decode(entry.value) for entry in entries}
        aggregated = [role for role in roles.values() if role.get("aggregationRule")]
        changed: dict[str, Raw] = {}
        # An aggregated role may be part of another one. A chain of them is no longer than their
        # number, so that many rounds bring every rule to its end.
        for _, role in product(range(len(aggregated)), aggregated):
            rules = _aggregated_rules(role, roles)
            if (role.get("rules") or []) != rules:
                role["rules"] = rules
                changed[role["metadata"]["name"]] = role
        for role in changed.values():
            role["metadata"].pop("resourceVersion")
            await self._write(CLUSTER_ROLES, "update", role)

    async def _accept_names(self) -> None:
        """Update the CRDs whose names were taken: their rules try again to accept the names."""
        for entry in list(self._store.scan(f"{CRDS.collection}/")):
            crd = codec.decode(entry.value)
            if not condition_is_true(crd, "NamesAccepted"):
                await self._write(CRDS, "update", crd)

    async def _write_usage(self, key: str, status: Raw) -> None:
        entry = self._store.get(key)
        quota = codec.decode(entry.value) if entry else {}
        if entry and quota.get("status") != status:
            quota["metadata"].pop("resourceVersion")
            await self._write(RESOURCE_QUOTAS, "update", quota | {"status": status}, "status")

    async def _write(self, resource: Resource, verb: str, obj: Raw, subresource: str = "") -> None:
        call = Call.internal(resource, verb, obj, subresource)
        try:
            await (self._verbs.create(call) if verb == "create" else self._verbs.update(call))
        except StatusError as error:
            # The namespace is being deleted, or another writer was first.
            if error.status not in (403, 404, 409):
                raise


def _aggregated_rules(role: Raw, roles: dict[str, Raw]) -> list[Raw]:
    """The rules of all roles that an aggregated role selects, each once, in the order of names."""
    own = role["metadata"]["name"]
    selectors = (role["aggregationRule"] or {}).get("clusterRoleSelectors") or ()
    rules: list[Raw] = []
    for key in sorted(roles):
        meta = roles[key]["metadata"]
        labels = meta.get("labels") or {}
        if meta["name"] != own and any(selector_matches(s, labels) for s in selectors):
            rules += [rule for rule in roles[key].get("rules") or () if rule not in rules]
    return rules
