"""TCP keepalive: the system notices within a minute that the other side of a connection is gone.

Without it a watch or a followed log, which may be silent for minutes, would wait for ever on a
server, a NAT or a load balancer that forgot the connection. It also keeps those that forget idle
connections from doing so. For both transports, so this module imports no asyncio.
"""

from __future__ import annotations

import socket

_SECONDS = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


def enable_keepalive(sock: socket.socket) -> None:
    """Probe the other side after 30 silent seconds; give up after 3 probes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _SECONDS:
        if hasattr(socket, option):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
