"""Discovery: /api and /apis, plain and aggregated, and /version."""

from __future__ import annotations

import base64
import hashlib
import platform
from typing import TYPE_CHECKING

from muster.local.apiserver.kinds.custom_resource import version_rank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.meta import Raw
    from muster.local.apiserver.registry import Registry
    from muster.local.apiserver.resource import Resource

VERSION: Raw = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.0+muster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "cpython",
    "platform": f"{platform.system().lower()}/{platform.machine()}",
}
AGGREGATED = "as=APIGroupDiscoveryList"

# Subresources whose body is of another kind than the object: kind, group, version, verbs.
_OTHER_KIND = {
    "binding": ("Binding", "", "v1", ("create",)),
    "eviction": ("Eviction", "policy", "v1", ("create",)),
    "token": ("TokenRequest", "authentication.k8s.io", "v1", ("create",)),
    "scale": ("Scale", "autoscaling", "v1", ("get", "patch", "update")),
    "exec": ("PodExecOptions", "", "v1", ("create", "get")),
    "attach": ("PodAttachOptions", "", "v1", ("create", "get")),
    "portforward": ("PodPortForwardOptions", "", "v1", ("create", "get")),
    "proxy": ("PodProxyOptions", "", "v1", ("create", "delete", "get", "patch", "update")),
}
_SAME_KIND = {"log": ("get",), "status": ("get", "patch", "update"), "finalize": ("update",)}


def answer(registry: Registry, path: str, accept: str) -> Raw | None:
    """The document at a discovery path; None if there is none."""
    parts = path.strip("/").split("/")
    aggregated = _prefers_aggregated(accept)
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            if aggregated:
                return _aggregated(registry, core=True)
            return {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            }
        case ["apis"]:
            if aggregated:
                return _aggregated(registry, core=False)
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(registry)}
        case ["api", version]:
            return _resources(registry, "", version)
        case ["apis", group]:
            return next((_group_doc(g) for g in _groups(registry) if g["name"] == group), None)
        case ["apis", group, version]:
            return _resources(registry, group, version)
        case _:
            return None


def content_type(accept: str, path: str) -> str:
    """Aggregated discovery is marked in its type, which is how clients know they got it."""
    if path.strip("/") in ("api", "apis") and _prefers_aggregated(accept):
        return "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    return "application/json"


def _prefers_aggregated(accept: str) -> bool:
    first_json = next((a for a in accept.split(",") if "json" in a), "")
    return AGGREGATED in first_json and "v=v2" in first_json and "v2beta1" not in first_json


def _by_version(registry: Registry) -> dict[str, dict[str, list[Resource]]]:
    """group -> version -> resources, versions in their order of preference."""
    groups: dict[str, dict[str, list[Resource]]] = {}
    for resource in registry.all():
        groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {g: dict(sorted(v.items(), key=lambda i: version_rank(i[0]))) for g, v in groups.items()}


def _groups(registry: Registry) -> list[Raw]:
    groups = []
    for group, by_version in _by_version(registry).items():
        if not group:
            continue
        versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in by_version]
        groups.append({"name": group, "versions": versions, "preferredVersion": versions[0]})
    return groups


def _group_doc(group: Raw) -> Raw:
    return {"kind": "APIGroup", "apiVersion": "v1", **group}


# -- plain ---------------------------------------------------------------------------------------


def _resources(registry: Registry, group: str, version: str) -> Raw | None:
    resources = _by_version(registry).get(group, {}).get(version)
    if resources is None:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [row for resource in resources for row in _rows(resource)],
    }


def _rows(resource: Resource) -> Iterable[Raw]:
    row: Raw = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(resource),
        **_nicknames(resource),
    }
    if "get" in resource.verbs:
        row["storageVersionHash"] = _storage_hash(resource)
    yield row
    for name in sorted(resource.subresources):
        kind, group, version, verbs = _subresource(resource, name)
        sub: Raw = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": list(verbs),
        }
        if group != resource.group or version != resource.version:
            sub |= {"group": group, "version": version}
        yield sub


_CUSTOM_ORDER = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]


def _verbs(resource: Resource) -> list[str]:
    return _CUSTOM_ORDER if resource.custom else sorted(resource.verbs)


def _nicknames(resource: Resource) -> Raw:
    """Short names and categories, if there are any."""
    nicknames = {"shortNames": list(resource.short), "categories": list(resource.categories)}
    return {field: names for field, names in nicknames.items() if names}


def _storage_hash(resource: Resource) -> str:
    """A hash that changes with the storage version."""
    stored = f"{resource.group}/{resource.storage_version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def _subresource(resource: Resource, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    if name in _OTHER_KIND:
        return _OTHER_KIND[name]
    return resource.kind, resource.group, resource.version, _SAME_KIND.get(name, ("get",))


# -- aggregated ----------------------------------------------------------------------------------


def _aggregated(registry: Registry, *, core: bool) -> Raw:
    items = [
        {
            "metadata": {"creationTimestamp": None} | ({"name": group} if group else {}),
            "versions": [
                {
                    "version": version,
                    "resources": [_described(r) for r in resources],
                    "freshness": "Current",
                }
                for version, resources in by_version.items()
            ],
        }
        for group, by_version in _by_version(registry).items()
        if bool(group) != core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _described(resource: Resource) -> Raw:
    row: Raw = {
        "resource": resource.plural,
        "responseKind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
        **_nicknames(resource),
    }
    if resource.subresources:
        row["subresources"] = [
            _described_subresource(resource, n) for n in sorted(resource.subresources)
        ]
    return row


def _described_subresource(resource: Resource, name: str) -> Raw:
    kind, group, version, verbs = _subresource(resource, name)
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "verbs": list(verbs),
    }
