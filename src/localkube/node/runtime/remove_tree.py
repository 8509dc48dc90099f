"""Removes the files of a pod, which a program may have nested as deep as it likes.

`shutil.rmtree` calls itself for every level, so it fails below a thousand of them, and a path may
be longer than the kernel takes. Here one folder is open at a time, names are relative to it, and
the way back up is `..`. No link is followed, and a folder is left only to the one from which it was
entered.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from localkube.node.standalone.linux.files import opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class _Level(NamedTuple):
    """A folder on the way from the top to the open one."""

    name: str
    identity: tuple[int, int]
    """Device and inode."""
    folders: list[str]
    """Names of the folders in it that were not entered yet."""


def remove_tree(path: Path | str) -> None:
    """Delete a directory as far as possible.

    Without descriptors nothing in it can be deleted: this is raised, so that the caller tries again
    and the files of a deleted pod do not stay behind.
    """
    folder = _open(path)
    if folder is not None:
        _empty(folder)
    _remove(os.rmdir, path)


def _empty(folder: int) -> None:
    """Delete everything in an open folder, and close it."""
    try:
        levels = [_read(folder, "")]
        while True:
            if levels[-1].folders:
                name = levels[-1].folders.pop()
                below = _open(name, folder)
                if below is None:
                    _remove(os.rmdir, name, folder)
                    continue
                os.close(folder)
                folder = below
                levels.append(_read(folder, name))
                continue
            left = levels.pop()
            if not levels:
                return
            above = os.open("..", _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = above
            if _identity(folder) != levels[-1].identity:
                return  # it was moved elsewhere: the files there are not the pod's
            _remove(os.rmdir, left.name, folder)
    finally:
        os.close(folder)


def _read(folder: int, name: str) -> _Level:
    """Delete the files of a folder; its folders are left to do."""
    with contextlib.suppress(OSError):  # not ours
        if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(folder, stat.S_IRWXU)
    folders = []
    for entry in os.listdir(folder):
        try:
            is_folder = stat.S_ISDIR(os.lstat(entry, dir_fd=folder).st_mode)
        except OSError:  # it was deleted
            continue
        if is_folder:
            folders.append(entry)
        else:
            _remove(os.unlink, entry, folder)
    return _Level(name, _identity(folder), folders)


def _open(name: Path | str, folder: int | None = None) -> int | None:
    """A folder to empty; None if it cannot be entered, or is not a folder any more."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        return _open_closed(name, folder)
    except OSError as error:
        if error.errno in _NO_DESCRIPTOR:
            raise
        return None


def _open_closed(name: Path | str, folder: int | None) -> int | None:
    """A folder whose mode keeps its owner out."""
    with contextlib.suppress(OSError), opened(os.open(name, _PLACE, dir_fd=folder)) as place:
        os.chmod(f"/proc/self/fd/{place}", stat.S_IRWXU)
        return os.open(".", _FOLDER, dir_fd=place)
    return None


def _identity(folder: int) -> tuple[int, int]:
    info = os.fstat(folder)
    return info.st_dev, info.st_ino


def _remove(remove: Callable[..., None], name: Path | str, folder: int | None = None) -> None:
    """Remove one entry if that is possible."""
    with contextlib.suppress(OSError):
        remove(name, dir_fd=folder)
