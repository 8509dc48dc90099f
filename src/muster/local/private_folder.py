"""Folders of the cluster's state, `$MUSTER_HOME` and the data directory: no other user in them.

A folder that is ours and open to others is closed. It is refused if it has files of others, which
we would take for our own (a token, a key), or if it has other files of ours, which may be shared on
purpose. A refused folder is not changed.

Pods write files of any user, and change the owner of files that they see: the names in `_OF_PODS`
are left out, so that no pod keeps the next daemon from starting.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from muster.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_SYSTEM = "lost+found"  # root's, in the first folder of a file system
_OF_PODS = frozenset(
    [
        "volumes",
        "root",
        "root.over",
        "tmp",
        "work",
        "shm",
        "hosts",
        "resolv.conf",
        "hostname",
        "termination-log",
    ]
)
_LOGS = "pod-logs"  # thousands of files, none of which gives rights
_CONTAINERS = "containers"  # its folders have the names of containers, which may be those above


class Purpose(NamedTuple):
    """What a folder is for, in messages and for its checks."""

    name: str
    other: str
    """How to use another one."""
    signs: tuple[str, ...]
    """Files that only the cluster makes."""


def close_to_others(path: Path, purpose: Purpose) -> None:
    """Let no other user enter the folder; UsageError if that is not ours to decide."""
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"{purpose.name} {path} belongs to another user (uid {status.st_uid}), "
            "who could read the cluster's secrets",
            hint=f"{purpose.other}, or change its owner with `chown`.",
        )
    _check_entries(path, purpose)
    if status.st_mode & _OTHERS:
        _close(path, status.st_mode, purpose)
        _check_entries(path, purpose)  # again: nothing can be added now


def check_below(path: Path, purpose: Purpose) -> None:
    """Refuse files of others in all our folders in a closed folder; nobody else may write there."""
    folders = [str(path)]
    while folders:
        folder = folders.pop()
        for entry, status in _entries(folder):
            of_pod = entry.name in _OF_PODS and os.path.basename(folder) != _CONTAINERS
            if of_pod or entry.name == _SYSTEM:
                continue
            _check_owner(entry, status, purpose)
            if not stat.S_ISDIR(status.st_mode):
                continue
            if is_open := bool(status.st_mode & _OTHERS_WRITE):
                os.chmod(entry.path, stat.S_IMODE(status.st_mode) & ~_OTHERS)
                _report_closed(entry.path)
            if is_open or entry.name != _LOGS:
                folders.append(entry.path)


def refuse_links(path: Path, names: tuple[str, ...], purpose: Purpose) -> None:
    """Refuse a link instead of one of these files or folders, or of a file in such a folder."""
    for name in names:
        places = [path / name, *(path / name).glob("*")]
        for place in places:
            if place.is_symlink():
                raise UsageError(
                    f"{place} in {purpose.name} is a symbolic link",
                    hint=f"{purpose.other}, or replace the link by its target.",
                )


def _check_entries(path: Path, purpose: Purpose) -> None:
    for entry, status in _entries(str(path)):
        if entry.name != _SYSTEM:
            _check_owner(entry, status, purpose)


def _entries(folder: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """The entries, without those that a shim removes meanwhile."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        try:
            yield entry, entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue


def _check_owner(entry: os.DirEntry[str], status: os.stat_result, purpose: Purpose) -> None:
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"{entry.path} in {purpose.name} belongs to another user (uid {status.st_uid})",
            hint=f"{purpose.other}, or look at the file, then `rm -r {entry.path}`.",
        )


def _close(path: Path, mode: int, purpose: Purpose) -> None:
    names = os.listdir(path)
    if names and not any(name in names for name in purpose.signs):
        raise UsageError(
            f"other users may enter {purpose.name} {path}, and it has files that are not the "
            "cluster's",
            hint=f"`chmod 700 {path}` closes it; or use an empty directory.",
        )
    path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    _report_closed(str(path))


def _report_closed(path: str) -> None:
    import logging  # it takes milliseconds, and every command imports this module

    logging.getLogger(__name__).info("closed %s to other users", path)
