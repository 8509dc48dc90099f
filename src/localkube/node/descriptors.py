"""Whether the node may open more descriptors: a part of the daemon's limit stays free of pods.

Whoever starts a pod, or holds a connection to its shim or to a node port, asks here first. `_KEPT`
of the limit is left to the connections of the API (as many as `Limits` allows), so that the owner
can list and delete when pods have used up the rest.
"""

from __future__ import annotations

import asyncio
import os
import resource
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kubekit.serving.acceptor import is_lack
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_KEPT = 3 / 8
_START = 8
"""Descriptors that are open while a pod or container is started: locks, sockets, pipes."""
_UNLIMITED = 1 << 30


class OutOfDescriptors(CannotRun):
    """The share of the daemon's descriptors that pods may use is in use."""


class Descriptors:
    """The descriptors of this process, as the node uses them."""

    def __init__(self) -> None:
        self._starting = 0
        self._started = asyncio.Event()

    def has_room(self, count: int) -> bool:
        """Whether the node may open so many more."""
        limit = _limit()
        return _open_count() + self._starting * _START + count <= limit - int(limit * _KEPT)

    def has_room_to_watch(self) -> bool:
        """Whether the node may hold a connection to one more shim.

        Containers run without it, so those that are still to be started come first.
        """
        return self.has_room(1 + 2 * _START)

    @asynccontextmanager
    async def for_start(self) -> AsyncIterator[None]:
        """Descriptors to start a pod or container with; raises OutOfDescriptors without them.

        Starts that are under way return theirs in a moment: this waits for them first.
        """
        while not self.has_room(_START):
            if not self._starting:
                # The same text whenever a pod tries again: it is part of the pod's status.
                raise OutOfDescriptors(
                    f"the daemon has no descriptors left for pods: its limit is {_limit()}; raise "
                    "`ulimit -n`, or delete pods"
                )
            self._started.clear()
            await self._started.wait()
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1
            self._started.set()


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def _open_count() -> int:
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # one is for this list
    except OSError as error:
        if is_lack(error):
            return _UNLIMITED
        raise
