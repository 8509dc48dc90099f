"""`kube-root-ca.crt` in every namespace: by it pods trust the API server.

Run by `run.py`. Service-account volumes project this ConfigMap; one that is changed or deleted is
put right again.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.kinds import CONFIG_MAPS
from muster.api.meta import Key
from muster.errors import AlreadyExists, Forbidden, NotFound
from muster.kube.watch.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.core import ConfigMap
    from muster.kube.client import Client
    from muster.local.controllers.informers import SharedInformers

NAME = "kube-root-ca.crt"
_NOTE = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the"
    " kube-apiserver when using internal endpoints such as the internal service IP or"
    " kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
}


class RootCaPublisher:
    """The key is that of a namespace."""

    def __init__(self, client: Client, watched: SharedInformers, certificate: str) -> None:
        self.maps: Informer[ConfigMap] = Informer(
            client, CONFIG_MAPS, fields=f"metadata.name={NAME}"
        )
        self._client = client
        self._watched = watched
        self._data = {"ca.crt": certificate}

    def connect(self, wake: Callable[[Key], None]) -> None:
        self._watched.namespaces.subscribe(lambda change: wake(change.current.metadata.key))
        self.maps.subscribe(lambda change: wake(Key("", change.current.metadata.namespace)))

    async def __call__(self, key: Key) -> None:
        space = self._watched.namespaces.get(key)
        if space is None or space.metadata.deletion_timestamp is not None:
            return
        place = Key(key.name, NAME)
        found = self.maps.get(place)
        with contextlib.suppress(AlreadyExists, NotFound, Forbidden):  # the namespace is going
            if found is None:
                meta = {"name": NAME, "namespace": key.name, "annotations": _NOTE}
                await self._client.create(CONFIG_MAPS, {"metadata": meta, "data": self._data})
            elif found.data != self._data:
                gone = dict.fromkeys(found.data.keys() - self._data.keys())
                await self._client.patch(CONFIG_MAPS, place, {"data": {**gone, **self._data}})
