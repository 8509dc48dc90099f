"""What another user of the machine can do to API and dashboard without a token; run as that user.

    python flood.py PORT half-headers 1200    TLS connections that send half a header and wait
    python flood.py PORT half-requests 3000   the same to the dashboard, which has no TLS
    python flood.py PORT large-headers 3      connections with 100 headers of 900 kB each
    python flood.py PORT large-bodies 400     requests whose body of 3 MB comes only in part
    python flood.py PORT malformed 5000       requests that are no HTTP, one per connection

Prints a line when done, then keeps its connections until standard input ends.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import sys
from collections.abc import Callable

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CONTEXT.check_hostname, CONTEXT.verify_mode = False, ssl.CERT_NONE


def connect(port: int) -> ssl.SSLSocket:
    return CONTEXT.wrap_socket(socket.create_connection(("127.0.0.1", port), 20))


def half_headers(port: int, count: int) -> list[socket.socket]:
    return _half_headers(count, lambda: connect(port))


def half_requests(port: int, count: int) -> list[socket.socket]:
    return _half_headers(count, lambda: socket.create_connection(("127.0.0.1", port), 20))


def _half_headers(count: int, connection: Callable[[], socket.socket]) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            sockets.append(connection())
            sockets[-1].sendall(b"GET /api HTTP/1.1\r\nHost: x\r\nX-Half: ")
    return sockets


def large_headers(port: int, count: int) -> list[socket.socket]:
    sockets: list[socket.socket] = [connect(port) for _ in range(count)]
    for connection in sockets:
        connection.sendall(b"GET /api HTTP/1.1\r\nHost: x\r\n")
    for number in range(100):
        for connection in sockets:
            with contextlib.suppress(OSError):  # refused
                connection.sendall(b"X-%d: %s\r\n" % (number, b"a" * 900_000))
    return sockets


def large_bodies(port: int, count: int) -> list[socket.socket]:
    head = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"
    sockets: list[socket.socket] = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            connection = connect(port)
            sockets.append(connection)
            connection.sendall(head)
            connection.setblocking(False)
            for _ in range(200):  # as much as the server reads, 2 MB at most
                connection.send(b"x" * 10_000)
    return sockets


def malformed(port: int, count: int) -> list[socket.socket]:
    for number in range(count):
        with contextlib.suppress(OSError), connect(port) as connection:
            connection.sendall(b"GET /%d HTTP/1.1\r\n\x00: bad\r\n\r\n" % number)
            connection.recv(100)
    return []


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kinds = {
        "half-headers": half_headers,
        "half-requests": half_requests,
        "large-headers": large_headers,
        "large-bodies": large_bodies,
        "malformed": malformed,
    }
    connections = kinds[sys.argv[2]](int(sys.argv[1]), int(sys.argv[3]))
    print(len(connections), flush=True)
    sys.stdin.read()
