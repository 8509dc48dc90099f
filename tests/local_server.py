"""The local API server in a thread, for tests whose client is blocking."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from localkube.apiserver.server import ApiServer


class LocalServer:
    """The local API server in a thread with a loop of its own."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._server = ApiServer(folder)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> LocalServer:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(30)
        self._server.credentials.write_kubeconfig(self.kubeconfig, self._server.url)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
