"""Pages that many readers load at once are made once.

After a change, every open tab fetches the same part of a page. The text of a page depends on its
address, on the live objects, whose version is known, and on the clock, which shows in ages: so it
may be used again for a second. One user's pages are never shown to another: each has a cache.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from muster.web import threads

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

KEPT_SECONDS = 1.0


class PageCache:
    """Texts of pages that were made a moment ago, or are being made."""

    def __init__(self) -> None:
        self._texts: dict[Hashable, asyncio.Task[str]] = {}

    async def text(self, key: Hashable, make: Callable[[], str]) -> str:
        """The text of that key; `make` runs in a thread if nobody has made it yet."""
        task = self._texts.get(key)
        if task is None:
            task = asyncio.ensure_future(threads.compute(make))  # owner: ends with its page
            self._texts[key] = task
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._texts.pop, key, None)
        return await asyncio.shield(task)  # others may wait for it when this reader leaves
