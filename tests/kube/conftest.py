"""Keeps Python 3.11 from making an event loop that nobody closes.

There, asking for the current loop makes one unless a loop, or none, was set before; the plugins
that run async tests ask. None is what there is.
"""

from __future__ import annotations

import asyncio

asyncio.set_event_loop(None)
