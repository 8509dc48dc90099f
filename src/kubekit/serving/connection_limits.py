"""How many connections the API server has, and which one is closed to make room.

A connection is *waiting* until it sends a request with a valid token; then it is *authenticated*.

- Every new connection is let in, so a client always gets an answer. Beyond `waiting` connections,
  the peer that has most of them loses its oldest one: whoever floods the server loses only
  its own connections. Authenticated connections are never closed for new ones.
- A connection is authenticated only while there is room: in all, for one peer, and for all peers
  other than the daemon's own user, for whom the rest is reserved. Without room the request is
  answered with 429, which says so.
- Waiting connections together hold at most `WAITING_HEADER_BYTES` of headers in memory: beyond
  that, the connection that holds most is closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kubekit.serving.peer import Peer

HEADER_BYTES = 1024 * 1024
"""Bytes of one request's line and headers together, as with Go."""
CHUNKED_BYTES = 16 * 1024 * 1024
"""Bytes of a chunked body with the lines of its chunks, which may be longer than the body."""
WAITING_HEADER_BYTES = 8 * 1024 * 1024
_MAX_WAITING, _MAX_AUTHENTICATED = 256, 4096


class Closable(Protocol):
    """A connection, as the limits use it."""

    peer: Peer
    header_bytes: int
    """Bytes of headers of requests that are not authenticated yet."""

    def drop(self) -> None:
        """Close at once."""


@dataclass(frozen=True)
class Limits:
    """Numbers of connections."""

    waiting: int = _MAX_WAITING
    authenticated: int = _MAX_AUTHENTICATED

    @classmethod
    def for_descriptors(cls, descriptors: int) -> Limits:
        """The limits of a process that may open this many descriptors: pods need most of them."""
        return cls(min(_MAX_WAITING, descriptors // 8), min(_MAX_AUTHENTICATED, descriptors // 4))

    @property
    def per_peer(self) -> int:
        """Authenticated connections of one peer, unless it is the daemon's own user."""
        return self.authenticated // 4

    @property
    def of_others(self) -> int:
        """Authenticated connections of all peers but the daemon's own user."""
        return self.authenticated * 3 // 4


@dataclass
class Connections:
    """The open connections of one server."""

    limits: Limits = field(default_factory=Limits)
    _waiting: dict[Peer, dict[Closable, None]] = field(default_factory=dict, init=False)
    """By peer, the oldest first."""
    _waiting_count: int = field(default=0, init=False)
    _authenticated: dict[Closable, None] = field(default_factory=dict, init=False)
    _by_peer: dict[Peer, int] = field(default_factory=dict, init=False)
    _header_bytes: int = field(default=0, init=False)

    def __len__(self) -> int:
        return self._waiting_count + len(self._authenticated)

    def enter(self, connection: Closable) -> None:
        """Let a new connection in; beyond the limit, close another one of the largest peer."""
        if self._waiting_count >= self.limits.waiting:
            self.drop_oldest()
        self._waiting.setdefault(connection.peer, {})[connection] = None
        self._waiting_count += 1

    def drop_oldest(self) -> bool:
        """Close the oldest waiting connection of the peer that has most; False if none waits."""
        if not self._waiting:
            return False
        largest = max(self._waiting.values(), key=lambda connections: len(connections))
        self._drop(next(iter(largest)))
        return True

    def authenticate(self, connection: Closable) -> bool:
        """Count a connection as authenticated; False if there is no room."""
        if connection in self._authenticated:
            return True
        peer, limits = connection.peer, self.limits
        if len(self._authenticated) >= limits.authenticated:
            return False
        others = sum(count for other, count in self._by_peer.items() if not other.owner)
        if not peer.owner and (
            others >= limits.of_others or self._by_peer.get(peer, 0) >= limits.per_peer
        ):
            return False
        self._leave_waiting(connection)
        self._authenticated[connection] = None
        self._by_peer[peer] = self._by_peer.get(peer, 0) + 1
        return True

    def leave(self, connection: Closable) -> None:
        """The connection is closed. May be called twice."""
        self._leave_waiting(connection)
        if connection in self._authenticated:
            del self._authenticated[connection]
            self._by_peer[connection.peer] -= 1
            if not self._by_peer[connection.peer]:
                del self._by_peer[connection.peer]

    def add_header_bytes(self, connection: Closable, count: int) -> None:
        """A waiting connection holds `count` more bytes of headers."""
        # One that was closed to make room may still deliver bytes that had arrived before.
        if connection not in self._waiting.get(connection.peer, {}):
            return
        connection.header_bytes += count
        self._header_bytes += count
        while self._header_bytes > WAITING_HEADER_BYTES:
            everyone = (each for peers in self._waiting.values() for each in peers)
            self._drop(max(everyone, key=lambda each: each.header_bytes))

    def release_header_bytes(self, connection: Closable) -> None:
        """The headers of a waiting connection are not in memory any more."""
        self._header_bytes -= connection.header_bytes
        connection.header_bytes = 0

    def _drop(self, connection: Closable) -> None:
        self._leave_waiting(connection)
        connection.drop()

    def _leave_waiting(self, connection: Closable) -> None:
        of_peer = self._waiting.get(connection.peer, {})
        if connection in of_peer:
            del of_peer[connection]
            self._waiting_count -= 1
            if not of_peer:
                del self._waiting[connection.peer]
            self.release_header_bytes(connection)
