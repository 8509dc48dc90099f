"""The data directory of a local cluster: one daemon at a time, and no other user.

A daemon claims it before it touches anything: the names of the bridge, the firewall table and the
control groups follow from this directory, so two daemons on one directory would remove each other's
pods and network, also if their homes differ. The kernel releases the lock, however the daemon ends.

The directory holds the database, tokens, secret volumes and the sockets of shims. Files that we
make in it are private (umask 077), but the directory itself must be closed too: pods' volumes have
the modes that their programs expect. A directory that is ours is closed; one with other files in it
is refused, because its owner may share these files on purpose.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from muster.errors import UsageError
from muster.local.home import new_private_file, write_in_place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

LOCK = "cluster.lock"
DATABASE = "objects.db"
_OURS = (LOCK, DATABASE)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@contextmanager
def claimed(path: Path, home: Path) -> Iterator[None]:
    """Make the directory, check it, and hold its lock as the daemon of `home`."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close_to_others(path)
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


def _close_to_others(path: Path) -> None:
    """Let no other user enter the directory; refuse it if that is not ours to decide."""
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"the data directory {path} belongs to another user (uid {status.st_uid}), "
            "who could read the cluster's secrets",
            hint="Use another --data-dir, or change its owner with `chown`.",
        )
    if status.st_mode & _OTHERS:
        _close(path, status.st_mode)
    # After it is closed, so that nothing can be added: a token of another user must not be ours.
    for entry in os.scandir(path):
        owner = entry.stat(follow_symlinks=False).st_uid
        if owner != status.st_uid:
            raise UsageError(
                f"{entry.path} in the data directory belongs to another user (uid {owner})",
                hint="Use another --data-dir, or look at the file and remove it.",
            )


def _close(path: Path, mode: int) -> None:
    names = os.listdir(path)
    if names and not any(name in names for name in _OURS):
        raise UsageError(
            f"other users may enter the data directory {path}, and it has files that are not the "
            "cluster's",
            hint=f"`chmod 700 {path}` closes it; or use an empty directory.",
        )
    path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    log.info("closed %s to other users (chmod 700)", path)
