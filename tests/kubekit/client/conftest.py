"""A client of the real control plane, and names that do not depend on the machine's resolver."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ThreadedResolver

from kubekit.client.auth import kube_config
from kubekit.client.client import Client
from tests.controlplane.control_plane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names for tests are unknown at once: a machine may ask the network, or have an answer."""
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *words: Any, **given: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name.endswith((".example", ".invalid")):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *words, **given)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    # Where aiodns is installed, aiohttp would not ask `socket`.
    monkeypatch.setattr("aiohttp.connector.DefaultResolver", ThreadedResolver)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.connect(kube_config.load(control_plane.kubeconfig)) as connected:
        yield connected
