"""Reads and writes small files whole, without pathlib: its import would slow down every shim.

State files are written beside their place and renamed, so a reader sees the old or the new file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = str | os.PathLike[str]


@contextlib.contextmanager
def opened(fd: int) -> Iterator[int]:
    """An open descriptor, closed at the end of a `with` block."""
    try:
        yield fd
    finally:
        os.close(fd)


def read(path: Path) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def write(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_atomically(path: Path, text: str, mode: int | None = None) -> None:
    """Replace the file in one step; missing directories are made.

    `mode` for a file that programs of any user in a pod may read: our umask makes others private.
    """
    directory = os.path.dirname(path)
    if directory:
        os.makedirs(directory, exist_ok=True)
    replace(path, text, mode)


def replace(path: Path, text: str, mode: int | None = None) -> None:
    """The same in a directory that must exist: one that is being deleted does not come back."""
    draft = draft_of(path)
    # In place: a draft that was made in time has its blocks, and a full disk has no others.
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.truncate()
    if mode is not None:
        os.chmod(draft, mode)
    os.replace(draft, path)


def draft_of(path: Path) -> str:
    """Where a file is written before it is renamed."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}")


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file; empty if the file is missing or not JSON.

    Any other error is raised: a file that cannot be read now, for lack of descriptors for example,
    is not missing.
    """
    try:
        body: dict[str, Any] = json.loads(read(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return body


def read_end(path: Path, limit: int) -> bytes:
    """At most the last `limit` bytes of a regular file; empty if it is anything else.

    For files that a program of a pod may have written: a sparse file of any size costs no more
    than `limit`, a FIFO does not block, and a link is not followed.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError), opened(os.open(path, flags)) as fd:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            return os.pread(fd, limit, max(0, status.st_size - limit))
    return b""


def names(folder: Path) -> list[str]:
    """The sorted names in a directory; none if it is missing."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def inside(path: str) -> str:
    """A relative path that cannot leave its directory, whatever `..` it contains."""
    return os.path.normpath(f"/{path}").lstrip("/")


def is_locked(path: Path) -> bool:
    """Whether a process holds the file's lock."""
    try:
        with opened(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
            # A shared lock fails only if a process holds the exclusive one: readers do not count.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
