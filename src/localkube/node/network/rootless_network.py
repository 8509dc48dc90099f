"""The pods' network without root: the same bridge, in namespaces that a holder process owns.

The daemon stays outside of these namespaces, so pods can reach it only at a socket that was made
inside (`listen`).
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

from kubekit.errors import CannotRun
from localkube.node.network import pod_sockets
from localkube.node.network.bridge import BridgeNetwork
from localkube.node.network.rootless_outbound import UserModeNetwork
from localkube.node.runtime import processes
from localkube.node.standalone.linux.netlink import Netlink

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_START_TIMEOUT = 10.0


class RootlessNetwork(BridgeNetwork):
    host_needs_proxy = True

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self._folder = data_dir
        self._record = data_dir / "holder"
        self._errors = data_dir / "open_socket.err"
        self.external = self._user_mode = UserModeNetwork(data_dir)

    @property
    def holder(self) -> int:
        return processes.saved_pid(self._record)

    def open(self, live: Collection[str] = ()) -> None:
        """Choose a subnet; start the holder unless it still runs.

        No link is removed here: the links of pods end with the pods' namespaces.
        """
        with Netlink() as net:
            self.choose_subnet(net.networks())
        if not self.holder:
            self._start_holder()
        self._user_mode.open(self.holder)

    def netlink(self, protocol: int) -> socket.socket:
        # The user who owns a user namespace has all rights in it, also from outside.
        return pod_sockets.netlink_in_namespace(self.holder, protocol, self._errors)

    def listen_at(self, address: str, port: int) -> socket.socket:
        return pod_sockets.listen_in_namespace(self.holder, address, port, self._errors)

    async def connect(self, address: str, port: int) -> socket.socket:
        return await pod_sockets.connect_from_pod(self.holder, address, port, self._errors)

    @property
    def server_addresses(self) -> tuple[str, ...]:
        return ()

    @property
    def name_servers(self) -> list[str]:
        return self._user_mode.name_servers

    def detach(self, address: str) -> None:
        """Nothing to do: the link ends with the pod's namespace, and `pause` replaces a stale
        link."""

    def close(self) -> None:
        self._user_mode.close()
        processes.kill_saved(self._record)

    def listen(self, port: int) -> socket.socket | None:
        return self.listen_at(self.gateway, port)

    def _start_holder(self) -> None:
        ours, theirs = socket.socketpair()
        errors = self._folder / "holder.err"
        with ours:
            ours.settimeout(_START_TIMEOUT)
            with theirs:
                fds = {0: theirs.fileno()}
                pid = processes.start_program("namespace_holder", [], fds, errors)
            # Saved before it has its namespaces: a crash from here on leaves no unknown process.
            processes.save_pid(self._record, pid)
            request = {
                "folder": str(self._folder),
                "bridge": self.bridge,
                "address": str(self.interface),
            }
            ours.sendall(json.dumps(request).encode() + b"\n")
            if not ours.recv(100):
                reason = processes.last_line(errors)
                raise CannotRun(f"cannot create the namespaces for pods: {reason}")
