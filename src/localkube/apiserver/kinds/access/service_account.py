"""ServiceAccount, and the fields that the account gives to a new pod.

A pod that names no account gets `default`. Every container gets the token, the CA and the namespace
at a fixed path, unless the pod or the account says otherwise, or the container has a mount there.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kubekit.objects.meta import SUFFIX_LETTERS
from localkube.apiserver import api_errors, codec
from localkube.apiserver.resource import Resource, Strategy

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.store.changes import ObjectReader

TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access-"
_LIFETIME = 3607
"""Seconds. An odd number, as on a real cluster, marks tokens that the pod did not ask for."""
_MIRROR = "kubernetes.io/config.mirror"

SERVICE_ACCOUNTS = Resource(
    "", "v1", "serviceaccounts", "ServiceAccount", short=("sa",),
    subresources=frozenset({"token"}), strategy=Strategy(delete_answer="object"),
)  # fmt: skip


def complete_pod(pod: Raw, store: ObjectReader) -> None:
    """Give a new pod its account and what the account brings; 403 if there is no such account."""
    spec, meta = pod["spec"], pod["metadata"]
    if _MIRROR in (meta.get("annotations") or {}):
        return  # a node agent has made it, and it has no account
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = _account(pod, name, store)
    automount = spec.get("automountServiceAccountToken")
    if automount is None:
        automount = account.get("automountServiceAccountToken")
    if automount is not False:
        _mount_token(spec)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = account["imagePullSecrets"]


def _account(pod: Raw, name: str, store: ObjectReader) -> Raw:
    meta = pod["metadata"]
    namespace = meta["namespace"]
    entry = store.get(codec.key(SERVICE_ACCOUNTS, namespace, name))
    if entry is None:
        account = f"{namespace}/{name}"
        why = f'error looking up service account {account}: serviceaccount "{name}" not found'
        raise api_errors.forbidden("", "pods", meta.get("name") or meta.get("generateName"), why)
    return codec.decode(entry.value)


def _mount_token(spec: Raw) -> None:
    volumes = spec.get("volumes") or []
    name = _VOLUME + "".join(random.choices(SUFFIX_LETTERS, k=5))
    needed = False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts = container.get("volumeMounts") or []
        if not any(mount.get("mountPath") == TOKEN_DIRECTORY for mount in mounts):
            mount = {"name": name, "readOnly": True, "mountPath": TOKEN_DIRECTORY}
            container["volumeMounts"] = [*mounts, mount]
            needed = True
    if needed:
        spec["volumes"] = [*volumes, {"name": name, "projected": _projected()}]


def _projected() -> Raw:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    ca = [{"key": "ca.crt", "path": "ca.crt"}]
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _LIFETIME, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": ca}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
    }
