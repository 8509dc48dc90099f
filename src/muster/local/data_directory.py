"""The data directory of a local cluster: one daemon at a time, and no other user.

A daemon claims it before it touches anything: the names of the bridge, the firewall table and the
control groups follow from this directory, so two daemons on one directory would remove each other's
pods and network, also if their homes differ. The kernel releases the lock, however the daemon ends.

The directory holds the database, tokens, secret volumes and the sockets of shims. Files that we
make in it are private (umask 077), but the directory itself must be closed too: pods' volumes have
the modes that their programs expect. See `private_folder` for what is closed and what is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from muster.errors import UsageError
from muster.local.home import new_private_file, write_in_place
from muster.local.private_folder import Purpose, check_below, close_to_others, refuse_links

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "cluster.lock"
DATABASE = "objects.db"
_PURPOSE = Purpose("the data directory", "Use another --data-dir", (LOCK, DATABASE))
_NO_LINKS = ("access", "backups", "pods", LOCK, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")


@contextmanager
def claimed(path: Path, home: Path) -> Iterator[None]:
    """Make the directory, check it, and hold its lock as the daemon of `home`."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        close_to_others(path, _PURPOSE)
        check_below(path, _PURPOSE)
        refuse_links(path, _NO_LINKS, _PURPOSE)
        lock = open(path / LOCK, "r+", opener=new_private_file)  # noqa: SIM115 - open until the end
    except OSError as error:
        raise UsageError(
            f"the local cluster cannot keep its data in {path}: {error.strerror}",
            hint="`arena up --data-dir DIRECTORY` takes a directory that you may write to.",
        ) from error
    with lock:
        _take(lock, path)
        with contextlib.suppress(OSError):  # a full disk: the lock counts, not its text
            write_in_place(lock, f"{os.getpid()} {home}\n")
        yield


def _take(lock: IO[str], path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        pid, _, home = lock.read().strip().partition(" ")
        owner = f" (pid {pid}, MUSTER_HOME={home})" if home else ""
        command = f"`MUSTER_HOME={home} arena down`" if home else "`arena down` in its home"
        raise UsageError(
            f"another local cluster{owner} uses the data directory {path}",
            hint=f"{command} stops it; or use another --data-dir.",
        ) from error
