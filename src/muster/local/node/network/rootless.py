"""The pods' network without root: the same bridge, in namespaces that a holder process owns.

Used by the agent in place of `network.Network` when it does not run as root. The daemon stays
outside: pods reach one another, and reach the daemon only where it asked for a socket (`listen`).
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from muster.errors import CannotRun
from muster.local.node.network import pod_sockets
from muster.local.node.network.bridge import BridgeNetwork
from muster.local.node.network.user_mode import UserModeNetwork
from muster.local.node.runtime import sandbox
from muster.local.node.runtime.pod_records import write_atomically
from muster.local.node.runtime.shims import start_program
from muster.local.node.standalone.linux import kernel
from muster.local.node.standalone.linux.netlink import Netlink

if TYPE_CHECKING:
    from collections.abc import Collection

_START = 10.0


class RootlessNetwork(BridgeNetwork):
    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self._folder = data_dir
        self._record = data_dir / "holder"
        self.userland = UserModeNetwork(data_dir)

    @property
    def holder(self) -> int:
        pid, started = self._written()
        return pid if pid and kernel.start_time(pid) == started else 0

    def open(self, live: Collection[str] = ()) -> None:
        """Choose a subnet; start the holder unless it still lives. Links go with their pods."""
        with Netlink() as net:
            self.choose_subnet(net.networks())
        if not self.holder:
            self._start()
        self.userland.open(self.holder)

    @property
    def way_out(self) -> str:
        return self.userland.how

    @property
    def no_way_out(self) -> str:
        return self.userland.why_not

    @property
    def servers(self) -> list[str]:
        return self.userland.servers

    def detach(self, address: str) -> None:
        """Nothing: the link goes with the pod's network, and `pause` replaces one that stayed."""

    def close(self) -> None:
        self.userland.close()
        pid = self.holder
        if pid:
            sandbox.end(pid)
        self._record.unlink(missing_ok=True)

    def listen(self, port: int) -> socket.socket:
        """A listening socket at the gateway, where pods can reach it."""
        return pod_sockets.listen_in_namespace(
            self.holder, self.gateway, port, self._folder / "dial.err"
        )

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        errors = self._folder / "holder.err"
        with ours:
            ours.settimeout(_START)
            with theirs:
                pid = start_program("namespace_holder", [], {0: theirs.fileno()}, errors)
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            facts = {"pid": pid, "started": kernel.start_time(pid), "boot": boot}
            write_atomically(self._record, json.dumps(facts))
            wanted = {
                "folder": str(self._folder),
                "bridge": self.bridge,
                "address": str(self.interface),
            }
            ours.sendall(json.dumps(wanted).encode() + b"\n")
            if not ours.recv(100):
                said = errors.read_text(errors="replace").strip().splitlines()
                why = said[-1] if said else "it ended without a word"
                raise CannotRun(f"the namespaces for pods could not be made: {why}")

    def _written(self) -> tuple[int, int]:
        try:
            facts = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0, 0
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return (facts["pid"], facts["started"]) if facts["boot"] == boot else (0, 0)
