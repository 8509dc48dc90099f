"""The local API server: in a thread, for clients that block, or on the loop of the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from localkube.apiserver.server import ApiServer
from tests.waiting import connections_closed


class LocalServer:
    """The local API server in a thread with a loop of its own; `options` are those of ApiServer."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.server = ApiServer(folder, **options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._components: list[asyncio.Task[None]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self.call(self.server.start())
        self.server.credentials.write_kubeconfig(self.kubeconfig, self.server.url)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call(self._stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint.with_token(self.server.url, self.server.token, ca=self.server.ca)

    def call(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something on the server's loop."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def run(self, component: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        """Run a component beside the server until its end."""

        async def connected() -> None:
            async with Client.connect(self.endpoint) as client:
                await component(client)

        async def start() -> None:
            self._components.append(asyncio.create_task(connected()))

        self.call(start())

    async def _stop(self) -> None:
        for task in self._components:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.server.stop()
        await connections_closed()


@asynccontextmanager
async def local_client(folder: Path) -> AsyncIterator[Client]:
    """The client of a local API server, both on the loop of the test."""
    server = ApiServer(folder)
    await server.start()
    endpoint = Endpoint.with_token(server.url, server.token, ca=server.ca)
    async with Client.connect(endpoint) as client:
        yield client
    await server.stop()
