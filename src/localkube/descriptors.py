"""Divides the descriptors of the daemon, so that no part of it can take those of another.

The limit is divided into three shares:

- for connections to the API: as many as `Limits` allows, whether or not they are open now;
- `_KEPT` for the store and for files that are open for a moment;
- the rest for the node: connections to shims, to node ports, and the streams of pods.

The share of the node is measured, not booked: it has whatever is open and is not a connection to
the API. Whoever opens a descriptor for the node asks here first. Half of `_KEPT` is open to
streams, so that a user can read the logs of the pods that have used up the node's share.
"""

from __future__ import annotations

import asyncio
import os
import resource
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubekit.errors import OutOfDescriptors
from kubekit.serving.acceptor import is_lack
from kubekit.serving.limits import Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kubekit.serving.limits import Connections

_KEPT = 64
_FOR_STREAMS = 32
_START = 8
"""Descriptors that are open while a pod or container is started: locks, sockets, pipes."""
_NONE_LEFT = 1 << 30


@dataclass
class Descriptors:
    """The descriptors of this process."""

    connections: Connections | None = None
    """Those of the API server, which have a share of their own."""
    _starting: int = field(default=0, init=False)
    _started: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def has_room(self, count: int) -> bool:
        """Whether the node may open so many more."""
        return self._used() + count <= self._share()

    def has_room_to_watch(self) -> bool:
        """Whether the node may hold a connection to one more shim.

        Containers run without it, so those that are still to be started come first.
        """
        return self.has_room(1 + 2 * _START)

    def check_stream(self) -> None:
        """Raise OutOfDescriptors if no log, exec or other stream of a pod can be opened."""
        if self._used() + 2 > self._share() + _FOR_STREAMS:
            raise self._none_left()

    @asynccontextmanager
    async def for_start(self) -> AsyncIterator[None]:
        """Descriptors to start a pod or container with; raises OutOfDescriptors without them.

        Starts that are under way return theirs in a moment: this waits for them first.
        """
        while not self.has_room(_START):
            if not self._starting:
                raise self._none_left()
            self._started.clear()
            await self._started.wait()
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1
            self._started.set()

    def _share(self) -> int:
        limit = _limit()
        limits = Limits.for_descriptors(limit)
        return max(0, limit - limits.waiting - limits.authenticated - _KEPT)

    def _used(self) -> int:
        of_api = 0 if self.connections is None else len(self.connections)
        return _open_count() - of_api + self._starting * _START

    def _none_left(self) -> OutOfDescriptors:
        # The same text whenever a pod tries again: it is part of the pod's status.
        return OutOfDescriptors(
            f"the daemon has no descriptors left for pods: all {self._share()} of {_limit()} are "
            "in use; raise `ulimit -n`, or delete pods (the others are kept for the API)"
        )


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NONE_LEFT if soft == resource.RLIM_INFINITY else soft


def _open_count() -> int:
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # one is for this list
    except OSError as error:
        if is_lack(error):
            return _NONE_LEFT
        raise
