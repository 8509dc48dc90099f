"""Discovery: /api and /apis, plain and aggregated, and /version."""

from __future__ import annotations

import base64
import hashlib
import platform
from typing import TYPE_CHECKING

from localkube import KUBERNETES_VERSION
from localkube.apiserver.kinds.custom_resources import version_rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.resource_registry import Registry

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# The version whose schemas and messages this server has.
VERSION: Raw = {
    "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
    "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
    "gitVersion": KUBERNETES_VERSION, "gitCommit": "", "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "cpython",
    "platform": f"linux/{_ARCHITECTURES.get(platform.machine(), platform.machine())}",
}  # fmt: skip
AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Clients know an aggregated document by its content type."""

# Subresources whose body is of another kind than the object: group, kind, verbs. All are v1.
_OTHER_KIND = {
    "binding": ("", "Binding", ("create",)),
    "eviction": ("policy", "Eviction", ("create",)),
    "token": ("authentication.k8s.io", "TokenRequest", ("create",)),
    "scale": ("autoscaling", "Scale", ("get", "patch", "update")),
    "exec": ("", "PodExecOptions", ("create", "get")),
    "attach": ("", "PodAttachOptions", ("create", "get")),
    "portforward": ("", "PodPortForwardOptions", ("create", "get")),
}
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")
_SAME_KIND = {
    "log": ("get",),
    "status": ("get", "patch", "update"),
    "ephemeralcontainers": ("get", "patch", "update"),
    "finalize": ("update",),
}


def document(registry: Registry, path: str, accept: str) -> Raw | None:
    """The document at a discovery path; None if there is none."""
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api" | "apis" as root] if _prefers_aggregated(accept):
            return _aggregated(registry, core=root == "api")
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(registry)}
        case ["api", version]:
            return _resources(registry, "", version)
        case ["apis", name]:
            head = {"kind": "APIGroup", "apiVersion": "v1"}
            return next((head | g for g in _groups(registry) if g["name"] == name), None)
        case ["apis", group, version]:
            return _resources(registry, group, version)
        case _:
            return None


def _prefers_aggregated(accept: str) -> bool:
    # Clients list v2, v2beta1 and plain JSON in their order of preference; only v2 is served.
    first_json = next((a for a in accept.split(",") if "json" in a), "")
    parameters = ("as=APIGroupDiscoveryList", "v=v2")
    return all(p in first_json for p in parameters) and "v2beta1" not in first_json


def _by_version(registry: Registry) -> dict[str, dict[str, list[Resource]]]:
    """group -> version -> resources, versions in their order of preference."""
    groups: dict[str, dict[str, list[Resource]]] = {}
    for resource in registry.all():
        groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {g: dict(sorted(v.items(), key=lambda i: version_rank(i[0]))) for g, v in groups.items()}


def _groups(registry: Registry) -> list[Raw]:
    groups = []
    for group, by_version in _by_version(registry).items():
        versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in by_version]
        if group:
            groups.append({"name": group, "versions": versions, "preferredVersion": versions[0]})
    return groups


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


def _rows(resource: Resource) -> Iterator[Raw]:
    row: Raw = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        **_verbs_and_nicknames(resource),
    }
    if "get" in resource.verbs:  # a hash that changes with the storage version
        stored = f"{resource.group}/{resource.storage_version}/{resource.kind}"
        digest = hashlib.sha256(stored.encode()).digest()[:8]
        row["storageVersionHash"] = base64.b64encode(digest).decode()
    yield row
    for name, gvk, verbs in _subresources(resource):
        sub: Raw = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": gvk["kind"],
            "verbs": verbs,
        }
        if (gvk["group"], gvk["version"]) != (resource.group, resource.version):
            sub |= gvk
        yield sub


# kube-apiserver lists the verbs of custom resources in this order.
_CUSTOM_ORDER = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]


def _verbs_and_nicknames(resource: Resource) -> Raw:
    """Verbs, and short names and categories if there are any."""
    nicknames = {"shortNames": list(resource.short), "categories": list(resource.categories)}
    verbs = _CUSTOM_ORDER if resource.custom else sorted(resource.verbs)
    return {"verbs": verbs} | {field: names for field, names in nicknames.items() if names}


def _subresources(resource: Resource) -> Iterator[tuple[str, Raw, tuple[str, ...]]]:
    """Name, type of the body and verbs of each subresource."""
    for name in sorted(resource.subresources):
        if name == "proxy":
            yield name, resource.gvk | {"kind": f"{resource.kind}ProxyOptions"}, _PROXY_VERBS
        elif name in _OTHER_KIND:
            group, kind, verbs = _OTHER_KIND[name]
            yield name, {"group": group, "version": "v1", "kind": kind}, verbs
        else:
            yield name, resource.gvk, _SAME_KIND.get(name, ("get",))


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
        "responseKind": resource.gvk,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        **_verbs_and_nicknames(resource),
    }
    if resource.subresources:
        row["subresources"] = [
            {"subresource": name, "responseKind": gvk, "verbs": verbs}
            for name, gvk, verbs in _subresources(resource)
        ]
    return row
