"""Publishes the ConfigMap `kube-root-ca.crt` in every namespace: the CA of the API server.

Service account volumes contain it. If it is changed or deleted, it is written again.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kubekit.errors import AlreadyExists, Forbidden, NotFound
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key, merge_patch
from kubekit.watch.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.client import Client
    from kubekit.objects.core import ConfigMap
    from localkube.controllers.informers import SharedInformers

NAME = "kube-root-ca.crt"
_ANNOTATIONS = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the"
    " kube-apiserver when using internal endpoints such as the internal service IP or"
    " kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
}


class RootCaPublisher:
    """Keys are namespaces."""

    def __init__(self, client: Client, informers: SharedInformers, certificate: str) -> None:
        self.maps: Informer[ConfigMap] = Informer(
            client, CONFIG_MAPS, fields=f"metadata.name={NAME}"
        )
        self._client = client
        self._informers = informers
        self._data = {"ca.crt": certificate}

    def connect(self, wake: Callable[[Key], None]) -> None:
        self._informers.namespaces.subscribe(lambda change: wake(change.current.metadata.key))
        self.maps.subscribe(lambda change: wake(Key("", change.current.metadata.namespace)))

    async def reconcile(self, key: Key) -> None:
        namespace = self._informers.namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        stored = self.maps.get(Key(key.name, NAME))
        # The namespace may be deleted meanwhile, or our watch may be behind.
        with contextlib.suppress(AlreadyExists, NotFound, Forbidden):
            if stored is None:
                meta = {"name": NAME, "namespace": key.name, "annotations": _ANNOTATIONS}
                await self._client.create(CONFIG_MAPS, {"metadata": meta, "data": self._data})
            elif stored.data != self._data:
                change = {"data": merge_patch(stored.data, self._data)}
                await self._client.patch(CONFIG_MAPS, stored.metadata.key, change)
