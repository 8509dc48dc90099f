"""A socket of another network: made there, handed to whoever asked.

Started by the daemon's `dialing` with a socket as standard input and, as its argument, `{"pid",
"listen" | "connect"}`; it sends the descriptor back, or a sentence saying why not. A socket belongs
for ever to the network in which it was made, so the daemon can use it from outside.
"""

from __future__ import annotations

import json
import os
import socket
import sys

from muster.local.node.standalone.linux import kernel


def main() -> int:
    asked = json.loads(sys.argv[1])
    back = socket.socket(fileno=os.dup(0))
    try:
        kernel.enter(kernel.open_namespaces(asked["pid"], ("user", "net")))
        if "listen" in asked:
            made = socket.create_server(tuple(asked["listen"]), backlog=1024)
        else:
            made = _connected([tuple(address) for address in asked["connect"]])
    except OSError as error:
        text = os.strerror(error.errno) if error.errno else str(error)
        back.send(f"no{text}".encode())
        return 1
    socket.send_fds(back, [b"ok"], [made.fileno()])
    return 0


def _connected(addresses: list[tuple[str, int]]) -> socket.socket:
    """A connection to the first address that answers."""
    trouble = OSError("no address")
    for address in addresses:
        try:
            return socket.create_connection(address, timeout=10)
        except OSError as error:
            trouble = error
    raise trouble
