"""How pods reach the world outside: through the machine's own address, as root; see `rootless`.

Used by `network`. Forwarding is switched on for the pods' bridge and the links of the default
route, no others.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from muster.local.node.runtime import forwarding
from muster.local.node.standalone import nftables

if TYPE_CHECKING:
    import ipaddress

_RESOLVERS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
_ROUTES = Path("/proc/net/route")


class Outside:
    """The way out for one bridge. `how` says which it is; empty means that there is none."""

    def __init__(self, bridge: str) -> None:
        self._bridge = bridge
        self.how = ""
        self.why_not = ""

    def open(self, subnet: ipaddress.IPv4Network) -> None:
        """Let pods out; a machine that does not allow it is no error."""
        links = default_links(_ROUTES.read_text())
        if not links:
            self.why_not = "the machine has no default route"
            return
        try:
            nftables.masquerade(self._bridge, subnet, self._bridge)
            forwarding.turn_on(self._bridge, links)
        except OSError as error:
            self.why_not = f"{error.strerror} ({error.filename or 'forwarding'})"
            return
        self.how = "NAT"

    def close(self) -> None:
        """Put everything back as it was found."""
        with contextlib.suppress(OSError):
            nftables.remove(self._bridge)
        with contextlib.suppress(OSError):
            forwarding.turn_off(self._bridge)


def default_links(routes: str) -> list[str]:
    """The links by which packets to anywhere leave, from the kernel's table of routes."""
    lines = [line.split() for line in routes.splitlines()[1:]]
    return list(dict.fromkeys(line[0] for line in lines if line[1] == line[7] == "00000000"))


def resolvers() -> list[str]:
    """The machine's name servers that can be asked from another network: none on loopback."""
    for file in _RESOLVERS:
        try:
            lines = [line.split() for line in file.read_text().splitlines()]
        except OSError:
            continue
        found = [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
        usable = [server for server in found if not server.startswith("127.") and ":" not in server]
        if usable:
            return usable
    return []
