"""An in-memory client of exec and attach."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class ExecClient:
    def __init__(self, data: bytes, size: tuple[int, int] | None = None) -> None:
        self._data = data
        self._size = size
        self.out = b""
        self.err = b""

    async def stdin(self) -> AsyncIterator[bytes]:
        yield self._data

    async def resizes(self) -> AsyncIterator[tuple[int, int]]:
        if self._size:
            yield self._size

    async def stdout(self, data: bytes) -> None:
        self.out += data

    async def stderr(self, data: bytes) -> None:
        self.err += data
