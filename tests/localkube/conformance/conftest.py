"""Both servers: this one, in a thread of its own, and the real one."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import pytest

from localkube.apiserver.kinds.custom.custom_resource import KnownKinds
from localkube.apiserver.server import ApiServer
from muster.contract import crds
from muster.jobs.unknown_fields import unknown_field_paths
from tests.controlplane.process_flags import SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localkube.node_interface import NodeBackend
    from tests.controlplane.control_plane import ControlPlane


@dataclass(frozen=True)
class Running:
    """A server that can be talked to."""

    url: str
    token: str
    authority_pem: bytes
    kubeconfig: Path


class InThread:
    """Our server on an event loop of its own, for callers that block."""

    def __init__(
        self,
        folder: Path,
        backend: NodeBackend | None = None,
        *,
        admit_service_accounts: bool = False,
    ) -> None:
        self._folder = folder
        self._backend = backend
        # The real server of the tests has no controller that makes accounts (`process_flags.py`).
        self._admit_service_accounts = admit_service_accounts
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> Running:
        self._thread.start()
        self.server = ApiServer(
            self._folder,
            backend=self._backend,
            service_range=IPv4Network(SERVICES),
            admit_service_accounts=self._admit_service_accounts,
            known=KnownKinds(unknown_field_paths, crds.immutable_fields()),
        )
        asyncio.run_coroutine_threadsafe(self.server.start(), self._loop).result(20)
        kubeconfig = self._folder / "kubeconfig"
        self.server.credentials.write_kubeconfig(kubeconfig, self.server.url)
        return Running(self.server.url, self.server.token, self.server.ca, kubeconfig)

    def compact(self) -> None:
        """Forget all history."""
        store = self.server.store
        work = store.compact(store.revision)
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    host = InThread(tmp_path_factory.mktemp("apiserver"))
    yield host.start()
    host.stop()


@pytest.fixture(scope="session")
def real(control_plane: ControlPlane) -> Running:
    return Running(
        control_plane.url,
        control_plane.token,
        control_plane.authority.certificate,
        control_plane.kubeconfig,
    )
