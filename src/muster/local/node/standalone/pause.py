"""A pod's first process: makes the namespaces and sleeps in them; when it exits, the pod ends.

Its standard input is a socket to the daemon. Two processes take part: the starter, which stays in
the network namespace of the bridge, and its child, which becomes the pod's first process.
1. The starter reads `{"folder", "hostname", "network", "shared", "join"}`, the child makes the
   namespaces, and the starter answers `{"pid"}`.
2. When the daemon has saved the PID, it sends `{"link", "bridge", "address", "gateway"}`; the
   starter makes the link, the child configures its end and answers `{"ready": true}`.
If one of the three dies in between, end of file ends the others, and nothing is left.

Then the child becomes `sleep`, which takes a megabyte, with the pod's folder in its environment. It
ignores SIGCHLD: this survives exec and makes the kernel reap every orphan of the pod.
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
    request = json.loads(channel.readline() or "null")
    if request is None:
        return 1
    _join(request)
    kernel.unshare(kernel.CLONE_NEWPID)
    starter, child = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        starter.close()
        return _become_first(channel, child.makefile("rw", encoding="utf-8"), request)
    child.close()
    return _start(channel, starter.makefile("rw", encoding="utf-8"), request, pid)


def _join(request: dict[str, Any]) -> None:
    """Without root, the rights come from the namespaces of the holder process."""
    if request.get("join"):
        names = ("user", "net") if request["network"] else ("user",)
        kernel.enter(kernel.open_namespaces(request["join"], names))


def _start(channel: Any, child: Any, request: dict[str, Any], pid: int) -> int:
    try:
        if not child.readline():
            return 1
        _send(channel, {"pid": pid})
        network = json.loads(channel.readline() or "null")
        if network is None:
            return 1
        if request["network"]:
            _link(network, pid)
        _send(child, network)
        return 0 if child.readline() else 1
    finally:
        child.close()


def _link(network: dict[str, Any], pid: int) -> None:
    """Make a veth pair between the bridge and the pod; replace one that an earlier pod left."""
    with Netlink() as net:
        links = {link.name: link.number for link in net.links()}
        if network["link"] in links:
            net.delete(links[network["link"]])
        net.add_veth(network["link"], links[network["bridge"]], "eth0", pid)


def _become_first(channel: Any, starter: Any, request: dict[str, Any]) -> int:
    kernel.unshare(_OWN | (kernel.CLONE_NEWNET if request["network"] else 0))
    socket.sethostname(request["hostname"])
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    mounts.run_steps("", request["shared"])
    _send(starter, {"made": True})
    network = json.loads(starter.readline() or "null")
    if network is None:
        return 1
    if request["network"]:
        _configure(network)
    _send(starter, {"done": True})
    _send(channel, {"ready": True})
    return _sleep(request["folder"])


def _sleep(folder: str) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, null + 1024)
    return os.execvpe("sleep", ["sleep", "infinity"], {"MUSTER_POD": folder})


def _configure(network: dict[str, Any]) -> None:
    with Netlink() as net:
        for link in net.links():
            if link.name == "lo":
                net.set_up(link.number)
            elif link.name == "eth0":
                net.set_up(link.number)
                net.add_address(link.number, ipaddress.IPv4Interface(network["address"]))
                net.add_default_route(ipaddress.IPv4Address(network["gateway"]))


def _send(channel: Any, body: dict[str, Any]) -> None:
    channel.write(json.dumps(body) + "\n")
    channel.flush()
