"""How pods reach the world outside: through the machine's own address, as root; see `rootless`.

Used by `network`. Forwarding is switched on for the pods' bridge and the links of the default
route, no others; what they were is written down beside the network and put back by `close`.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from muster.local.node.runtime.records import write
from muster.local.node.standalone import nftables

if TYPE_CHECKING:
    import ipaddress

_RESOLVERS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
_DEVICES = Path("/proc/sys/net/ipv4/conf")
_ROUTES = Path("/proc/net/route")


class Outside:
    """The way out for one bridge. `how` says which it is; empty means that there is none."""

    def __init__(self, data_dir: Path, table: str) -> None:
        self._file = data_dir / "forwarding"
        self._table = table
        self.how = ""
        self.why_not = ""

    def open(self, subnet: ipaddress.IPv4Network, bridge: str) -> None:
        """Let pods out; a machine that does not allow it is no error."""
        links = default_links(_ROUTES.read_text())
        if not links:
            self.why_not = "the machine has no default route"
            return
        try:
            nftables.masquerade(self._table, subnet, bridge)
            self._forward([bridge, *links])
        except OSError as error:
            self.why_not = f"{error.strerror} ({error.filename or 'forwarding'})"
            return
        self.how = "NAT"

    def close(self) -> None:
        """Put everything back as it was found."""
        with contextlib.suppress(OSError):
            nftables.remove(self._table)
        for link, was in self._former().items():
            with contextlib.suppress(OSError):
                (_DEVICES / link / "forwarding").write_text(was)
        self._file.unlink(missing_ok=True)

    def _forward(self, links: list[str]) -> None:
        """Switch forwarding on. First what it was is written down, and kept from earlier starts."""
        former = self._former()
        for link in links:
            was = (_DEVICES / link / "forwarding").read_text().strip()
            former.setdefault(link, was)
        write(self._file, json.dumps(former))
        for link in links:
            (_DEVICES / link / "forwarding").write_text("1")

    def _former(self) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        return found


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
