"""The address at which the server itself reaches a service: one of its ready endpoints."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import TYPE_CHECKING

from localkube.apiserver import codec
from localkube.apiserver.kinds.pods.pod import PODS
from localkube.apiserver.kinds.services.endpoints import ENDPOINT_SLICES
from localkube.apiserver.kinds.services.service import SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.store.changes import ObjectReader
    from localkube.node_interface import NodeBackend

_SERVICE_NAME = "kubernetes.io/service-name"


class ServiceEndpoints:
    """Finds endpoints of services."""

    def __init__(self, store: ObjectReader, backend: Callable[[], NodeBackend | None]) -> None:
        self._store = store
        self._backend = backend

    async def find(self, namespace: str, name: str, number: int) -> str:
        """`host:port` of a ready endpoint; a LookupError says why there is none."""
        service = self._read(codec.key(SERVICES, namespace, name))
        if service is None:
            raise LookupError(f'service "{name}" not found')
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return f"{spec['externalName']}:{number}"
        port = next((p for p in spec.get("ports") or () if p.get("port") == number), None)
        if port is None:
            raise LookupError(f'no service port {number} found for service "{name}"')
        ready = list(self._ready(namespace, name, port.get("name") or ""))
        if not ready:
            raise LookupError(f'no endpoints available for service "{name}"')
        endpoint, target = random.choice(ready)
        return await self._address(namespace, endpoint, target)

    async def dial(self, address: str, port: int) -> socket.socket:
        """A connection; the node agent makes it, because it also reaches pods without root."""
        backend = self._backend()
        if backend is not None:
            return await backend.dial(address, port)
        sock = socket.socket()
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def _ready(self, namespace: str, name: str, port: str) -> Iterator[tuple[Raw, int]]:
        """The ready endpoints, each with the number of the port."""
        for entry in self._store.scan(codec.prefix(ENDPOINT_SLICES, namespace)):
            slice_ = codec.decode(entry.value)
            if (slice_["metadata"].get("labels") or {}).get(_SERVICE_NAME) != name:
                continue
            ports = [row for row in slice_.get("ports") or () if (row.get("name") or "") == port]
            for endpoint in slice_.get("endpoints") or ():
                if ports and (endpoint.get("conditions") or {}).get("ready") is not False:
                    yield endpoint, int(ports[0]["port"])

    async def _address(self, namespace: str, endpoint: Raw, port: int) -> str:
        reference, backend = endpoint.get("targetRef") or {}, self._backend()
        pod = None
        if reference.get("kind") == "Pod":
            pod = self._read(codec.key(PODS, namespace, reference["name"]))
        if pod is None or backend is None:
            return f"{endpoint['addresses'][0]}:{port}"
        host, number = await backend.address(pod, port)
        return f"{host}:{number}"

    def _read(self, key: str) -> Raw | None:
        entry = self._store.get(key)
        return codec.decode(entry.value) if entry else None
