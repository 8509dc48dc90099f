"""Tests here run real processes; a warning about somebody else's event loop must not fail them."""

from __future__ import annotations

import asyncio

# Asked for the current loop, an event loop policy makes one that nobody closes, unless it was told
# that there is none; pytest-asyncio asks before the first asynchronous test.
asyncio.set_event_loop(None)
