"""The machine's forwarding switches, which all clusters on it share: on while any of them needs it.

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

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOTES = Path("/run")
_DEVICES = Path("/proc/sys/net/ipv4/conf")


def turn_on(bridge: str, links: list[str]) -> None:
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


def turn_off(bridge: str) -> None:
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
