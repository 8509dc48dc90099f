"""Without root: the process that owns the user and network namespaces of the pods' bridge.

There is one per cluster. It reads `{"folder", "bridge", "address"}` from the socket that is its
standard input, makes the namespaces, in which the user is root, brings up the bridge there, answers
`{"ready": true}`, and sleeps. `pause` makes the pods' namespaces inside of them; the daemon stays
outside and may be restarted.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket

from localkube.node.standalone.handshake import Channel, become_sleep, close_streams
from localkube.node.standalone.linux import files, kernel, netfilter
from localkube.node.standalone.linux.netlink import Netlink


def main() -> int:
    channel = Channel(socket.socket(fileno=os.dup(0)))
    request = channel.receive()
    if request is None:
        return 1
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
    # The kernel accepts the gid_map of an ordinary user only when setgroups is denied.
    files.write("/proc/self/setgroups", "deny")
    files.write("/proc/self/uid_map", f"0 {user} 1")
    files.write("/proc/self/gid_map", f"0 {group} 1")
    bridge, interface = request["bridge"], ipaddress.IPv4Interface(request["address"])
    with Netlink() as net:
        net.set_up(net.index("lo"))
        net.add_bridge(bridge)
        net.add_address(net.index(bridge), interface)
    # Forward packets of pods, for slirp4netns or pasta, which may join this namespace later.
    # Nothing outside of this namespace changes.
    with contextlib.suppress(OSError):
        files.write("/proc/sys/net/ipv4/ip_forward", "1")
        netfilter.write_bridge_table(interface.network, bridge)
    channel.send(ready=True)
    close_streams()
    return become_sleep({"MUSTER_HOLDER": request["folder"]})
