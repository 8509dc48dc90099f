"""Where an object can be created: its namespace must be there, and its name must be free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors, codec

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.errors import StatusError
    from muster.local.apiserver.http.requests import Call
    from muster.local.apiserver.resource import Resource
    from muster.local.apiserver.store.changes import ObjectReader


def namespace_for(call: Call, meta: Raw, store: ObjectReader) -> str:
    """The namespace to create in, which must exist and not be terminating."""
    resource, namespace = call.resource, call.route.namespace
    if not resource.namespaced:
        return ""
    if not namespace:
        raise api_errors.method_not_allowed()
    entry = store.get(f"namespaces//{namespace}")
    if entry is None:
        raise api_errors.not_found("", "namespaces", namespace)
    if codec.is_being_deleted(entry.value):
        name = str(meta.get("name") or meta.get("generateName") or "")
        raise api_errors.namespace_terminating(resource.group, resource.plural, name, namespace)
    return namespace


def already_exists(resource: Resource, key: str, store: ObjectReader) -> StatusError:
    """The error of a name that is taken."""
    entry, name = store.get(key), key.rpartition("/")[2]
    being_deleted = entry is not None and codec.is_being_deleted(entry.value)
    return api_errors.already_exists(
        resource.group, resource.plural, name, being_deleted=being_deleted
    )
