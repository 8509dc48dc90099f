"""One HTTP request to a server of the control plane: TLS by its own authority, or a Unix socket.

Blocking, one connection per request, and free of the code under test.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 30


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket: etcd's JSON gateway."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(str(self._path))


def tls_connection(port: int, ca: bytes) -> http.client.HTTPSConnection:
    """A connection that accepts only a server certified by `ca`."""
    trust = ssl.create_default_context(cadata=ca.decode())
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=SECONDS, context=trust)


def send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: object = None,
    token: str | None = None,
) -> tuple[int, bytes]:
    """Send one request, read the whole response, close."""
    kind = "merge-patch+json" if method == "PATCH" else "json"
    headers = {"Content-Type": f"application/{kind}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def send_to_etcd(path: Path, method: str, body: object) -> dict[str, Any]:
    """Call etcd's JSON gateway; an error is raised, since no test expects one."""
    status, text = send(UnixConnection(path), "POST", method, body)
    if status != http.client.OK:
        raise RuntimeError(f"etcd refused {method}: {text.decode(errors='replace')}")
    answer: dict[str, Any] = json.loads(text)
    return answer
