"""The fixture `api`: a running server without a node agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localkube.apiserver.running_server import running_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    async with running_server(tmp_path / "server") as api:
        yield api
