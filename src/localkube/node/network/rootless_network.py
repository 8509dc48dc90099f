"""The pods' network without root: the same bridge, in namespaces that a holder process owns.

The daemon stays outside of these namespaces, so pods can reach it only at a socket that was made
inside (`listen`). What lets pods reach other networks is `UserModeNetwork`.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import socket
from typing import TYPE_CHECKING

from localkube.node.network import pod_network
from localkube.node.network.bridge import BridgeNetwork
from localkube.node.network.pod_network import ExternalAccess
from localkube.node.runtime import processes
from localkube.node.standalone.linux import files
from localkube.node.standalone.linux.netlink import Netlink
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_HOLDER_TIMEOUT = 10.0
_START_TIMEOUT = 5.0
_DEVICE = "/dev/net/tun"
_UNHELPFUL = "child failed"
_MAX_LINES = 3
_SLIRP_DNS = "10.0.2.3"
_PASTA_DNS = "169.254.53.53"


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
        return pod_network.open_in_namespace(self.holder, self._errors, netlink=protocol)

    def listen_at(self, address: str, port: int) -> socket.socket:
        return pod_network.open_in_namespace(self.holder, self._errors, listen=(address, port))

    async def connect(self, address: str, port: int) -> socket.socket:
        return await pod_network.connect_from_pod(self.holder, address, port, self._errors)

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
            ours.settimeout(_HOLDER_TIMEOUT)
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


class UserModeNetwork(ExternalAccess):
    """Access to other networks by slirp4netns or pasta, whichever is installed.

    The program carries packets between the holder's network namespace and ordinary sockets of the
    user. Inside the namespace, the holder has set up the same NAT as root does on a machine. The
    program outlives the daemon: its PID is saved, and it is killed when the cluster stops.
    `method` is its name once it runs.
    """

    def __init__(self, data_dir: Path) -> None:
        super().__init__()
        self._folder = data_dir
        self._record = data_dir / "outbound"
        self._errors = data_dir / "outbound.err"

    @property
    def name_servers(self) -> list[str]:
        """The address at which the program answers name queries."""
        return {"slirp4netns": [_SLIRP_DNS], "pasta": [_PASTA_DNS]}.get(self.method, [])

    def open(self, holder: int) -> None:
        """Find the program that serves this holder, or start one.

        If neither program works, set `unavailable_reason`.
        """
        saved = files.read_json(self._record)
        if saved.get("holder") == holder and processes.saved_pid(self._record):
            self.method = saved["method"]
            return
        failures = []
        # For root only slirp4netns works: pasta refuses to run as root.
        for name, start in (("slirp4netns", self._slirp), ("pasta", self._pasta)):
            program = shutil.which(name)
            pid = start(program, holder) if program else 0
            if pid:
                self.method = name
                processes.save_pid(self._record, pid, method=name, holder=holder)
                return
            if program:
                failures.append(_explain(name, self._errors.read_text(errors="replace")))
        self.unavailable_reason = (
            "; ".join(failures) or "neither slirp4netns nor pasta is installed"
        )

    def close(self) -> None:
        processes.kill_saved(self._record)

    def _slirp(self, program: str, holder: int) -> int:
        ready, theirs = os.pipe()
        os.set_inheritable(theirs, True)  # its number is an argument of the program
        flags = ["--configure", "--mtu=65520", "--disable-host-loopback", f"--ready-fd={theirs}"]
        pid = self._spawn([program, *flags, str(holder), "tap0"])
        os.close(theirs)
        with open(ready, "rb", buffering=0) as pipe:
            if select.select([pipe], [], [], _START_TIMEOUT)[0] and pipe.read(1):
                return pid
        processes.kill_and_wait(pid)
        return 0

    def _pasta(self, program: str, holder: int) -> int:
        """pasta writes its PID and goes to the background when it is ready."""
        file = self._folder / "pasta.pid"
        file.unlink(missing_ok=True)
        # By default pasta forwards all ports that are bound, in both directions.
        ports = [word for flag in "tuTU" for word in (f"-{flag}", "none")]
        flags = ["--config-net", "--dns-forward", _PASTA_DNS, "--pid", str(file), *ports]
        pid = self._spawn([program, *flags, str(holder)])
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return 0 if code else int(file.read_text())

    def _spawn(self, argv: list[str]) -> int:
        self._errors.unlink(missing_ok=True)  # `spawn` appends, and this is one program's output
        env = os.environ | {"MUSTER_HOLDER": str(self._folder)}
        return processes.spawn(argv, env, {}, self._errors)


def _explain(name: str, output: str) -> str:
    """Why the program failed: its own message, and an explanation of the known causes."""
    lines = [line.strip() for line in output.splitlines()]
    useful = [line for line in lines if line and not line.startswith(_UNHELPFUL)]
    message = f"{name}: {', '.join(useful[-_MAX_LINES:]) or 'it exited without a message'}"
    if _DEVICE in message and os.strerror(errno.EACCES) in message:
        return f"this user may not open {_DEVICE} ({message})"
    if _DEVICE in message and os.strerror(errno.ENOENT) in message:
        return f"this machine has no {_DEVICE} ({message})"
    return message
