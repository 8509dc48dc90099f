"""Tries whether this machine allows a pod's namespaces, in a separate process.

The argument is `direct` (as root) or `user` (in a user namespace). The exit code is 0 if the
machine allows everything that `pause` and `namespace_holder` need.
"""

from __future__ import annotations

import os
import sys

from localkube.node.standalone.linux import files, kernel
from localkube.node.standalone.linux.netlink import Netlink

_ALL = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
)


def main() -> int:
    try:
        if sys.argv[1] == "user":
            user = os.geteuid()
            kernel.unshare(kernel.CLONE_NEWUSER)
            files.write("/proc/self/uid_map", f"0 {user} 1")
        # Not only the namespaces: some machines allow them but no mounts or links inside.
        kernel.unshare(_ALL)
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("muster", "/tmp", "tmpfs")
        os.close(kernel.copy_mount("/tmp"))  # since Linux 5.2
        with Netlink() as net:
            net.add_bridge("muster-trial")
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
