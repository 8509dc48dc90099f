"""A pod's first process: makes the pod's namespaces, then sleeps in them; its death ends the pod.

Started by the daemon's `sandbox` with a socket as standard input, on which it
1. reads `{"folder", "hostname", "network", "shared", "join"}`, makes the namespaces and answers
   `{"pid"}`,
2. reads `{"address", "gateway"}` once the daemon has written the PID down and given it a link,
   configures the link and answers `{"ready": true}`.
A daemon that dies in between leaves nothing: end of file ends this process too.

Afterwards it is `sleep`, a megabyte, with the pod's folder in its environment for whoever looks.
It ignores SIGCHLD, which survives exec and makes the kernel reap every orphan of the pod, so
nothing has to wait for them.
"""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import sys
from typing import Any

from muster.local.node.standalone import kernel, mounts
from muster.local.node.standalone.netlink import Netlink

_ALWAYS = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWPID


def main() -> int:
    link = socket.socket(fileno=os.dup(0))
    channel = link.makefile("rw", encoding="utf-8")
    wanted = json.loads(channel.readline() or "null")
    if wanted is None:
        return 1
    if wanted.get("join"):
        kernel.enter(kernel.open_namespaces(wanted["join"], ("user", "net")))
    kernel.unshare(_ALWAYS | (kernel.CLONE_NEWNET if wanted["network"] else 0))
    pid = os.fork()
    if pid == 0:
        return _first(channel, wanted)
    _say(channel, {"pid": pid})
    return 0


def _first(channel: Any, wanted: dict[str, Any]) -> int:
    socket.sethostname(wanted["hostname"])
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    mounts.carry_out("", wanted["shared"])
    given = json.loads(channel.readline() or "null")
    if given is None:
        return 1
    if wanted["network"]:
        _configure(given)
    _say(channel, {"ready": True})
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, null + 1024)
    return os.execvpe("sleep", ["sleep", "infinity"], {"MUSTER_POD": wanted["folder"]})


def _configure(given: dict[str, Any]) -> None:
    with Netlink() as net:
        for link in net.links():
            if link.name == "lo":
                net.set_up(link.number)
            elif link.name == "eth0":
                net.set_up(link.number)
                net.add_address(link.number, ipaddress.IPv4Interface(given["address"]))
                net.add_default_route(ipaddress.IPv4Address(given["gateway"]))


def _say(channel: Any, body: dict[str, Any]) -> None:
    channel.write(json.dumps(body) + "\n")
    channel.flush()


if __name__ == "__main__":
    sys.exit(main())
