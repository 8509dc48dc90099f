"""A pod's first process: makes the pod's namespaces, then sleeps in them; its death ends the pod.

Started by the daemon's `sandbox` with a socket as standard input. Two processes take part: the
starter, which stays in the network of the bridge, and its child, which becomes the pod's first.
1. The starter reads `{"folder", "hostname", "network", "shared", "join"}`, the child makes the
   namespaces, and the starter answers `{"pid"}`.
2. When the daemon has written the PID down it sends `{"link", "bridge", "address", "gateway"}`; the
   starter makes the link, the child configures its end and answers `{"ready": true}`.
Whoever dies in between leaves nothing: end of file ends the others.

Afterwards the child is `sleep`, a megabyte, with the pod's folder in its environment for whoever
looks. It ignores SIGCHLD, which survives exec and makes the kernel reap every orphan of the pod, so
nothing has to wait for them.
"""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
from typing import Any

from muster.local.node.standalone.linux import kernel, mounts
from muster.local.node.standalone.linux.netlink import Netlink

_OWN = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC


def main() -> int:
    channel = socket.socket(fileno=os.dup(0)).makefile("rw", encoding="utf-8")
    wanted = json.loads(channel.readline() or "null")
    if wanted is None:
        return 1
    _join(wanted)
    kernel.unshare(kernel.CLONE_NEWPID)
    starter, child = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        starter.close()
        return _first(channel, child.makefile("rw", encoding="utf-8"), wanted)
    child.close()
    return _start(channel, starter.makefile("rw", encoding="utf-8"), wanted, pid)


def _join(wanted: dict[str, Any]) -> None:
    """Without root, the rights come from the namespaces of a process that holds them."""
    if wanted.get("join"):
        names = ("user", "net") if wanted["network"] else ("user",)
        kernel.enter(kernel.open_namespaces(wanted["join"], names))


def _start(channel: Any, child: Any, wanted: dict[str, Any], pid: int) -> int:
    try:
        if not child.readline():
            return 1
        _say(channel, {"pid": pid})
        given = json.loads(channel.readline() or "null")
        if given is None:
            return 1
        if wanted["network"]:
            _link(given, pid)
        _say(child, given)
        return 0 if child.readline() else 1
    finally:
        child.close()


def _link(given: dict[str, Any], pid: int) -> None:
    """A veth pair between the bridge and the pod, in place of any that a former pod left."""
    with Netlink() as net:
        links = {link.name: link.number for link in net.links()}
        if given["link"] in links:
            net.delete(links[given["link"]])
        net.add_veth(given["link"], links[given["bridge"]], "eth0", pid)


def _first(channel: Any, starter: Any, wanted: dict[str, Any]) -> int:
    kernel.unshare(_OWN | (kernel.CLONE_NEWNET if wanted["network"] else 0))
    socket.sethostname(wanted["hostname"])
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    mounts.carry_out("", wanted["shared"])
    _say(starter, {"made": True})
    given = json.loads(starter.readline() or "null")
    if given is None:
        return 1
    if wanted["network"]:
        _configure(given)
    _say(starter, {"done": True})
    _say(channel, {"ready": True})
    return _sleep(wanted["folder"])


def _sleep(folder: str) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, null + 1024)
    return os.execvpe("sleep", ["sleep", "infinity"], {"MUSTER_POD": folder})


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
