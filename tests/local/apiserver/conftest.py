"""A running server for tests that need nothing special."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local.apiserver.running import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.local.apiserver.running import Talk


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with running(tmp_path / "server") as talk:
        yield talk
