"""How pods reach the world outside: through the machine's own address, as root; see `rootless`.

Used by `network`. Forwarding is switched on for the pods' bridge and the links of the default
route, no others.

The machine's forwarding switches, which all clusters on it share: on while any of them needs it.

Used by `outside`. What a switch was is written down by the first cluster that turns it and put back
by the last that leaves. The notes are in `/run`, which a restart of the machine empties, as it
resets the switches. A cluster that was killed is known by its bridge, which is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from muster.local.node.standalone.linux import nftables

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Iterator


_NOTES = Path("/run")
_DEVICES = Path("/proc/sys/net/ipv4/conf")


def enable_forwarding(bridge: str, links: list[str]) -> None:
    """Switch forwarding on for the bridge and the links, for the cluster with that bridge."""
    with _notes() as notes:
        (notes / "users").mkdir(exist_ok=True)
        (notes / "users" / bridge).touch()
        for link in links:
            note = notes / link
            if not note.exists():
                note.write_text(_switch(link).read_text().strip())
        for link in (bridge, *links):
            _switch(link).write_text("1")


def release_forwarding(bridge: str) -> None:
    """The cluster with that bridge needs it no more; the last one puts everything back."""
    if not _folder().is_dir():
        return
    with _notes() as notes:
        (notes / "users" / bridge).unlink(missing_ok=True)
        users = (notes / "users").iterdir() if (notes / "users").is_dir() else ()
        if any((_DEVICES / user.name).is_dir() for user in users):
            return
        for note in notes.iterdir():
            if note.is_file():
                with contextlib.suppress(OSError):
                    _switch(note.name).write_text(note.read_text())
        shutil.rmtree(notes)


def _switch(link: str) -> Path:
    return _DEVICES / link / "forwarding"


def _folder() -> Path:
    """Switches belong to a network namespace, and so do the notes about them."""
    return _NOTES / f"muster-forwarding-{os.stat('/proc/self/ns/net').st_ino}"


@contextlib.contextmanager
def _notes() -> Iterator[Path]:
    """The notes, for one cluster at a time."""
    while True:
        _folder().mkdir(mode=0o700, exist_ok=True)
        lock = os.open(_folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.fstat(lock).st_nlink:  # else the last one left, with the notes, while we waited
                yield _folder()
                return
        finally:
            os.close(lock)


_RESOLVERS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
_ROUTES = Path("/proc/net/route")


class Nat:
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
            enable_forwarding(self._bridge, links)
        except OSError as error:
            self.why_not = f"{error.strerror} ({error.filename or 'forwarding'})"
            return
        self.how = "NAT"

    def close(self) -> None:
        """Put everything back as it was found."""
        with contextlib.suppress(OSError):
            nftables.remove(self._bridge)
        with contextlib.suppress(OSError):
            release_forwarding(self._bridge)


def default_links(routes: str) -> list[str]:
    """The links by which packets to anywhere leave, from the kernel's table of routes."""
    lines = [line.split() for line in routes.splitlines()[1:]]
    return list(dict.fromkeys(line[0] for line in lines if line[1] == line[7] == "00000000"))


def name_servers() -> list[str]:
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
