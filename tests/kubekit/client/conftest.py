"""Names that do not depend on the machine's resolver."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from aiohttp import ThreadedResolver


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
