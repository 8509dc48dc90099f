"""The data directory of a local cluster: one daemon at a time, and no other user.

A daemon claims it before it touches anything: the names of the bridge, the firewall table and the
control groups follow from this directory, so two daemons on one directory would remove each other's
pods and network, even if their homes differ. The kernel releases the lock, however the daemon ends.

The directory holds the database, tokens, secret volumes and the sockets of shims. Files that we
make in it are private (umask 077), but the directory itself must be closed too: pods' volumes have
the modes that their programs expect. `private_files` says what is closed and what is refused. Pods
write files of any user, and change the owner of files that they see: the names in `_OF_PODS` are
left out, so that no pod keeps the next daemon from starting.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from kubekit.errors import UsageError
from kubekit.private_files import (
    OTHERS,
    SYSTEM,
    Purpose,
    check_owner,
    close_to_others,
    entries,
    new_private_file,
    report_closed,
    write_in_place,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "cluster.lock"
DATABASE = "objects.db"
_PURPOSE = Purpose("the data directory", "Use another --data-dir", (LOCK, DATABASE))
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FOLDERS_OF_PODS = ("volumes", "root", "root.over", "tmp", "work", "shm")
_FILES_OF_PODS = ("hosts", "resolv.conf", "hostname", "termination-log")
_OF_PODS = frozenset([*_FOLDERS_OF_PODS, *_FILES_OF_PODS])
_LOGS = "pod-logs"  # thousands of files, none of which gives rights
_CONTAINERS = "containers"  # its folders have the names of containers, which may be those above
_NO_LINKS = ("access", "backups", "pods", LOCK, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")


@contextmanager
def claimed(path: Path, home: Path) -> Iterator[None]:
    """Make the directory, check it, and hold its lock as the daemon of `home`."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        close_to_others(path, _PURPOSE)
        _check_below(path)
        _refuse_links(path)
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


def _check_below(path: Path) -> None:
    """Refuse files of others in all our folders in a closed folder; nobody else may write there."""
    folders = [str(path)]
    while folders:
        folder = folders.pop()
        for entry, status in entries(folder):
            of_pod = entry.name in _OF_PODS and os.path.basename(folder) != _CONTAINERS
            if of_pod or entry.name == SYSTEM:
                continue
            check_owner(entry, status, _PURPOSE)
            if not stat.S_ISDIR(status.st_mode):
                continue
            if is_open := bool(status.st_mode & _OTHERS_WRITE):
                os.chmod(entry.path, stat.S_IMODE(status.st_mode) & ~OTHERS)
                report_closed(entry.path)
            if is_open or entry.name != _LOGS:
                folders.append(entry.path)


def _refuse_links(path: Path) -> None:
    """Refuse a link instead of one of these files or folders, or of a file in such a folder."""
    for name in _NO_LINKS:
        for place in (path / name, *(path / name).glob("*")):
            if place.is_symlink():
                raise UsageError(
                    f"{place} in {_PURPOSE.name} is a symbolic link",
                    hint=f"{_PURPOSE.other}, or replace the link by its target.",
                )


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


def cluster_hash(data_dir: Path) -> str:
    """Hex digits in the names of everything that a cluster creates outside its directory."""
    return hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()
