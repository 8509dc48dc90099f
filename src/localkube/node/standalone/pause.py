"""A pod's first process: makes the namespaces and sleeps in them; when it exits, the pod ends.

Its standard input is a socket to the daemon. Two processes take part: the starter, which stays in
the network namespace of the bridge, and its child, which becomes the pod's first process.
1. The starter reads `{"folder", "hostname", "network", "shared", "hidden", "join"}`, the child
   makes the namespaces, and the starter answers `{"pid"}`.
2. When the daemon has saved the PID, it sends `{"link", "bridge", "address", "gateway"}`; the
   starter makes the link, the child configures its end and answers `{"ready": true}`.
If one of the three processes dies in between, the others read end of file and exit.

Then the child becomes `sleep` with the pod's folder in its environment. Programs of the pod see it
as process 1, and its root directory as `/proc/1/root`: so its root directory has nothing but what
the containers of the pod share, and the directories where `sleep` is.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from typing import Any

from localkube.node.standalone.handshake import Channel, become_sleep, close_streams
from localkube.node.standalone.linux import kernel, mounts
from localkube.node.standalone.linux.netlink import Netlink

_OWN = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC


def main() -> int:
    channel = Channel(socket.socket(fileno=os.dup(0)))
    request = channel.receive()
    if request is None:
        return 1
    if request.get("join"):  # the holder's namespaces: without root, they allow to make others
        names = ("user", "net") if request["network"] else ("user",)
        kernel.enter(kernel.open_namespaces(request["join"], names))
    # A new pid namespace is for children only: the child becomes its first process.
    kernel.unshare(kernel.CLONE_NEWPID)
    starter, child = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        starter.close()
        return _become_first(channel, Channel(child), request)
    child.close()
    return _start(channel, Channel(starter), request, pid)


def _start(channel: Channel, child: Channel, request: dict[str, Any], pid: int) -> int:
    if child.receive() is None:
        return 1
    channel.send(pid=pid)
    network = channel.receive()
    if network is None:
        return 1
    if request["network"]:
        _link(network, pid)
    child.send(**network)
    return 1 if child.receive() is None else 0


def _link(network: dict[str, Any], pid: int) -> None:
    """Make a veth pair between the bridge and the pod; replace one that an earlier pod left."""
    with Netlink() as net:
        links = net.links()
        if network["link"] in links:
            net.delete(links[network["link"]])
        net.add_veth(network["link"], links[network["bridge"]], "eth0", pid)


def _become_first(channel: Channel, starter: Channel, request: dict[str, Any]) -> int:
    kernel.unshare(_OWN | (kernel.CLONE_NEWNET if request["network"] else 0))
    socket.sethostname(request["hostname"])
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    mounts.share(request["folder"], request["shared"], request["hidden"])
    starter.send(made=True)
    network = starter.receive()
    if network is None:
        return 1
    if request["network"]:
        _configure(network)
    starter.send(done=True)
    close_streams()  # after this there is no /dev
    kernel.pivot_root(request["folder"])
    channel.send(ready=True)
    # An ignored SIGCHLD stays ignored after exec: the kernel then reaps every orphan of the pod.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    return become_sleep({"MUSTER_POD": request["folder"]})


def _configure(network: dict[str, Any]) -> None:
    with Netlink() as net:
        eth0 = net.index("eth0")
        net.set_up(net.index("lo"))
        net.set_up(eth0)
        net.add_address(eth0, ipaddress.IPv4Interface(network["address"]))
        net.add_default_route(ipaddress.IPv4Address(network["gateway"]))
