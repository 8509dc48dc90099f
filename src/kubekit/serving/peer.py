"""Who is at the other end of a connection: a user of this machine, or an address.

All users of a machine share 127.0.0.1, so an address does not tell a flood from its victim there.
The kernel knows the user who made each socket: `sock_diag` finds the client's socket by the two
addresses of the connection. A client in another network namespace (a pod) is known by its address.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from typing import NamedTuple

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _REQUEST = 20, 1
_LISTENING = 10
_HEADER = struct.Struct("=IHHII")
_QUERY = struct.Struct("=BBxxI")
_PORTS = struct.Struct("!HH")
_INTERFACE_AND_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
"""Any interface, any socket."""
_UID_AT = _HEADER.size + 4 + 48 + 12
"""In an answer: after the state, the addresses (48 bytes), the timer and the two queues."""


class Peer(NamedTuple):
    """A user of this machine by number, or an address."""

    name: str
    owner: bool = False
    """Whether it is the user of the daemon, or root: they can stop the daemon anyway."""
    uid: int | None = None
    """Of a user of this machine."""


class PeerFinder:
    """Finds peers, by one socket to the kernel; without its answer a peer is an address."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        with suppress(OSError):
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, _NETLINK_SOCK_DIAG
            )
        self._owners = {0, os.getuid()}

    def find(self, sock: socket.socket) -> Peer:
        """The peer of a connected socket."""
        try:
            theirs, ours = sock.getpeername(), sock.getsockname()
        except OSError:  # it has disconnected already
            return Peer("")
        uid = self._uid(sock.family, theirs, ours)
        if uid is None:
            return Peer(str(theirs[0]))
        return Peer(f"user {uid}", uid in self._owners, uid)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _uid(self, family: int, theirs: tuple[str, int], ours: tuple[str, int]) -> int | None:
        if self._socket is None:
            return None
        try:
            self._socket.send(_query(family, theirs, ours))
            answer = self._socket.recv(1024)
        except OSError:
            return None
        _, kind, *_ = _HEADER.unpack_from(answer)
        # Without such a socket, the kernel answers with an error or with a listening socket. The
        # socket of a client that has closed its side still has a user.
        if kind != _SOCK_DIAG_BY_FAMILY or answer[_HEADER.size + 1] == _LISTENING:
            return None
        (uid,) = struct.unpack_from("=I", answer, _UID_AT)
        return int(uid)


def _query(family: int, theirs: tuple[str, int], ours: tuple[str, int]) -> bytes:
    """The question for the socket whose own address is `theirs` and whose peer is `ours`."""
    addresses = b"".join(
        socket.inet_pton(family, address[0].partition("%")[0]).ljust(16, b"\0")
        for address in (theirs, ours)
    )
    identity = _PORTS.pack(theirs[1], ours[1]) + addresses + _INTERFACE_AND_COOKIE
    body = _QUERY.pack(family, socket.IPPROTO_TCP, 0xFFFFFFFF) + identity
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0) + body
