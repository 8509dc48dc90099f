"""An API server on a real socket, and a client for it."""

from __future__ import annotations

import io
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import msgspec

from localkube.apiserver.kinds.custom_resources import KnownKinds
from localkube.apiserver.kinds.service_addresses import DEFAULT_RANGE
from localkube.apiserver.server import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from ipaddress import IPv4Network
    from pathlib import Path

    from localkube.node_interface import NodeBackend

JSON = "application/json"
MERGE = "application/merge-patch+json"


class Reply(NamedTuple):
    status: int
    body: Any
    headers: Any


class ApiClient:
    """Requests with the admin's token."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = JSON, **headers: str
    ) -> Reply:
        """Send a body as it is if it is bytes, else as JSON; the body of the reply is decoded."""
        raw = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        data = None if raw is None else io.BytesIO(raw)
        headers = {"Content-Type": content_type, **headers}
        async with self.session.request(
            method, self.server.url + path, data=data, headers=headers
        ) as response:
            text = await response.read()
        try:
            return Reply(response.status, msgspec.json.decode(text), response.headers)
        except msgspec.DecodeError:
            return Reply(response.status, text.decode(errors="replace"), response.headers)

    async def create_pod(self, name: str, **spec: Any) -> Any:
        """Create a pod of one container in the default namespace."""
        containers = [{"name": "main", "image": "busybox"}]
        reply = await self.send(
            "POST",
            "/api/v1/namespaces/default/pods",
            {"metadata": {"name": name}, "spec": {"containers": containers, **spec}},
        )
        assert reply.status == 201, reply.body
        return reply.body


@asynccontextmanager
async def running_server(
    folder: Path,
    backend: NodeBackend | None = None,
    service_range: IPv4Network = DEFAULT_RANGE,
    known: KnownKinds | None = None,
) -> AsyncIterator[ApiClient]:
    """A started server and a client that trusts it."""
    server = ApiServer(folder, backend=backend, service_range=service_range, known=known)
    await server.start()
    trust = ssl.create_default_context(cadata=server.ca.decode())
    headers = {"Authorization": f"Bearer {server.token}"}
    try:
        async with aiohttp.ClientSession(
            headers=headers, connector=aiohttp.TCPConnector(ssl=trust)
        ) as session:
            yield ApiClient(server, session)
    finally:
        await server.stop()
