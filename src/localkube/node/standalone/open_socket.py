"""Makes a socket in another network namespace and sends its descriptor back.

Its standard input is a socket, its argument is `{"pid", "listen" | "connect" | "netlink"}`; it
sends the descriptor, or the reason why it cannot. A socket belongs to the network namespace in
which it was made, even if a process outside uses it, so the daemon can.
"""

from __future__ import annotations

import json
import os
import socket
import sys

from localkube.node.standalone.linux import kernel


def main() -> int:
    request = json.loads(sys.argv[1])
    daemon = socket.socket(fileno=os.dup(0))
    try:
        # The user namespace too: without root it gives the right to enter the network.
        kernel.enter(kernel.open_namespaces(request["pid"], ("user", "net")))
        if "listen" in request:
            result = socket.create_server(tuple(request["listen"]), backlog=1024)
        elif "netlink" in request:
            # Not by `netlink`, whose import would slow down every connection.
            result = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, request["netlink"])
            result.bind((0, 0))
        else:
            result = socket.create_connection(tuple(request["connect"]), timeout=10)
    except OSError as error:
        text = os.strerror(error.errno) if error.errno else str(error)
        daemon.send(f"no{text}".encode())
        return 1
    socket.send_fds(daemon, [b"ok"], [result.fileno()])
    return 0
