"""The pods' network and other hosts, as root: NAT to them, and nothing from them.

Pods reach other hosts with the machine's own address. Packets of other hosts for the pods' subnet
are dropped.

Forwarding is enabled only for the pods' bridge and the links of default routes. All clusters on a
machine share these switches: the first cluster that enables a switch saves its old value, and the
last cluster restores it. The saved values are in `/run`: a restart of the machine empties it, and
resets the switches too. A cluster that was killed does not count: its bridge is missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from localkube.node.network.pod_network import ExternalAccess
from localkube.node.standalone.linux import netfilter
from localkube.node.standalone.linux.files import opened

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Iterator

log = logging.getLogger(__name__)

_STATE = Path("/run")
_DEVICES = Path("/proc/sys/net/ipv4/conf")
_RESOLVERS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
_ROUTES = Path("/proc/net/route")


def enable_forwarding(bridge: str, links: list[str]) -> None:
    """Enable forwarding on the bridge and the links, for the cluster that owns the bridge."""
    with _state() as state:
        (state / "users").mkdir(exist_ok=True)
        (state / "users" / bridge).touch()
        for link in links:
            saved = state / link
            if not saved.exists():  # else another cluster has saved the value before ours
                saved.write_text(_switch(link).read_text().strip())
        for link in (bridge, *links):
            _switch(link).write_text("1")


def release_forwarding(bridge: str) -> None:
    """Release the switches of one cluster; the last cluster restores them."""
    if not _folder().is_dir():
        return
    with _state() as state:
        (state / "users" / bridge).unlink(missing_ok=True)
        users = (state / "users").iterdir() if (state / "users").is_dir() else ()
        # A user is named by its bridge, which has a directory here as long as it exists.
        if any((_DEVICES / user.name).is_dir() for user in users):
            return
        for saved in state.iterdir():
            if saved.is_file():
                with contextlib.suppress(OSError):  # the link is gone
                    _switch(saved.name).write_text(saved.read_text())
        shutil.rmtree(state)


def uses_forwarding(bridge: str) -> bool:
    """Whether the cluster that owned the bridge has not released the switches."""
    try:
        return (_folder() / "users" / bridge).exists()
    except PermissionError:  # the clusters of an ordinary user do not use them
        return False


def _switch(link: str) -> Path:
    return _DEVICES / link / "forwarding"


def _folder() -> Path:
    """Switches belong to a network namespace, so saved values do too."""
    return _STATE / f"muster-forwarding-{os.stat('/proc/self/ns/net').st_ino}"


@contextlib.contextmanager
def _state() -> Iterator[Path]:
    """The directory of saved values, locked."""
    while True:
        _folder().mkdir(mode=0o700, exist_ok=True)
        with opened(os.open(_folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.fstat(lock).st_nlink:  # else the last user removed it while we waited
                yield _folder()
                return


class Nat(ExternalAccess):
    """NAT for one bridge."""

    def __init__(self, bridge: str) -> None:
        super().__init__()
        self._bridge = bridge

    def open(self, subnet: ipaddress.IPv4Network) -> None:
        """Close the subnet to other hosts and enable NAT. If the machine does not allow it, set
        `unavailable_reason`."""
        links = default_links(_ROUTES.read_text())
        try:
            # Also without a default route: hosts of the networks beside us could reach the subnet.
            netfilter.write_bridge_table(subnet, self._bridge, masquerade=bool(links))
        except OSError as error:
            log.warning("other hosts with a route to %s reach pods: %s", subnet, error.strerror)
            self.unavailable_reason = f"{error.strerror} ({error.filename})"
            return
        try:
            # Also without a default route: packets from pod to pod through a service's address.
            enable_forwarding(self._bridge, links)
        except OSError as error:
            self.unavailable_reason = f"{error.strerror} ({error.filename or 'forwarding'})"
            return
        if links:
            self.method = "NAT"
        else:
            self.unavailable_reason = "the machine has no default route"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            netfilter.remove_table(self._bridge)
        with contextlib.suppress(OSError):
            release_forwarding(self._bridge)


def default_links(routes: str) -> list[str]:
    """The links of default routes, from the kernel's routing table."""
    lines = [line.split() for line in routes.splitlines()[1:]]
    return list(dict.fromkeys(line[0] for line in lines if line[1] == line[7] == "00000000"))


def name_servers() -> list[str]:
    """The machine's IPv4 name servers that pods can reach, so not servers on loopback."""
    for file in _RESOLVERS:
        try:
            lines = [line.split() for line in file.read_text().splitlines()]
        except OSError:
            continue
        servers = [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
        reachable = [s for s in servers if not s.startswith("127.") and ":" not in s]
        if reachable:
            return reachable
    return []
