"""Without root: the process that owns the user and network namespaces in which pods are connected.

Started once per cluster by the daemon's `rootless`, with a socket as standard input on which it
reads `{"folder", "bridge", "address"}`. It makes the namespaces, in which the user counts as root,
brings the bridge up there, answers `{"ready": true}`, and sleeps. Pods are made inside by `pause`;
the daemon stays outside and may die and come back.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket

from muster.local.node.standalone.linux import files, kernel, nftables
from muster.local.node.standalone.linux.netlink import Netlink


def _let_out(wanted: dict[str, str]) -> None:
    """Pass on what pods send to elsewhere, should a way out come to be here. Nothing outside of
    this network changes by it."""
    subnet = ipaddress.IPv4Interface(wanted["address"]).network
    with contextlib.suppress(OSError):
        files.write("/proc/sys/net/ipv4/ip_forward", "1")
        nftables.masquerade(wanted["bridge"], subnet, wanted["bridge"])


def main() -> int:
    channel = socket.socket(fileno=os.dup(0)).makefile("rw", encoding="utf-8")
    wanted = json.loads(channel.readline() or "null")
    if wanted is None:
        return 1
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
    files.write("/proc/self/setgroups", "deny")
    files.write("/proc/self/uid_map", f"0 {user} 1")
    files.write("/proc/self/gid_map", f"0 {group} 1")
    with Netlink() as net:
        net.add_bridge(wanted["bridge"])
        for link in net.links():
            if link.name == "lo":
                net.set_up(link.number)
            elif link.name == wanted["bridge"]:
                net.add_address(link.number, ipaddress.IPv4Interface(wanted["address"]))
    _let_out(wanted)
    channel.write(json.dumps({"ready": True}) + "\n")
    channel.flush()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, null + 1024)
    os.chdir("/")
    return os.execvpe("sleep", ["sleep", "infinity"], {"MUSTER_HOLDER": wanted["folder"]})
