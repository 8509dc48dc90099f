"""The bridge keeps its hardware address while pods come and go.

Pods remember the address of their gateway. A Linux bridge without an address of its own takes the
lowest one of its ports, so each new pod could change it, and the packets of pods that run were lost
until they asked again, ten seconds and more later.
"""

from __future__ import annotations

import subprocess
import sys

from localkube.node.runtime.processes import _SOURCE
from tests.localkube.node.local_node import needs_namespaces

PORTS = """
import fcntl, os, socket, struct, sys
sys.path.insert(0, sys.argv[1])
from localkube.node.standalone.linux import kernel
from localkube.node.standalone.linux.netlink import Netlink

def hardware_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, 0x8927, struct.pack("256s", b"bridge"))
    return answer[18:24].hex(":")

kernel.unshare(kernel.CLONE_NEWNET | (kernel.CLONE_NEWUSER if os.geteuid() else 0))
with Netlink() as net:
    net.add_bridge("bridge")
    addresses = [hardware_address()]
    for number in range(20):
        net.add_veth(f"port{number}", net.index("bridge"), f"pod{number}", os.getpid())
        addresses.append(hardware_address())
    for number in range(20):
        net.delete(net.index(f"port{number}"))
        addresses.append(hardware_address())
print(*dict.fromkeys(addresses))
"""


@needs_namespaces
def test_the_bridge_keeps_its_hardware_address() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PORTS, str(_SOURCE)], capture_output=True, text=True, check=False
    )

    addresses = ran.stdout.split()
    assert len(addresses) == 1, (addresses, ran.stderr)
    assert int(addresses[0][:2], 16) & 0b11 == 0b10  # of one machine, not of a vendor
