"""The versions in a model's directory: bounded walks over files that a hostile program may change.

Every file is opened from the descriptor of its folder and no link is followed, so a walk never
leaves the directory; nothing here blocks on a FIFO or reads a device. A version is a numbered
folder, in the directory itself or in its folder `export`. A directory without numbered folders may
hold one model itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import stat
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from muster.contract import exported_models
from muster.contract.exported_models import (
    MAX_ENTRIES,
    NPZ,
    ONNX,
    SAFETENSORS,
    SAVED_MODEL,
    UNVERSIONED,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    Unread = dict[str, str]
    """Folders and files that are there and cannot be read, with the reason."""

MAX_VERSIONS = 50
"""Versions of one model that are read: the newest."""
_MAX_DEPTH = 5
_OPENAT2 = 437
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_MAX_LISTED = 50
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors of a path that was deleted meanwhile, or is a link, which is never followed."""
_PARTS = ("variables", "assets", "fingerprint.pb", "assets.extra")
"""Folders of a SavedModel that is in the directory itself; others there are not the model's."""


class Folder(NamedTuple):
    """A version's folder, and its state when it was found."""

    version: str
    path: str
    """Below the model's directory; `.` is the directory itself."""
    stamp: tuple[int, int, int, int]
    """Device, inode, times of change: equal if nothing was added, removed or renamed in it."""


class Folders(NamedTuple):
    """The folders of the newest versions."""

    rows: list[Folder]
    """Newest first."""
    omitted: int = 0
    """Folders of older versions."""
    truncated: bool = False
    """Whether there are more entries than were looked at."""


@dataclass
class Contents:
    """The files of a version."""

    files: list[exported_models.File] = field(default_factory=list)
    size: int = 0
    count: int = 0
    entries: int = 0
    """Files, folders and everything else that was looked at."""
    truncated: bool = False
    """Whether there is more than was looked at."""
    modified: int = 0
    """When the newest file was written, in nanoseconds."""
    changed: int = 0
    """When the newest file or folder was changed: unlike `modified`, no program can set it."""
    state: int = 0
    """A hash of names, sizes and times: equal if no file changed."""
    format: str = ""
    main: str = ""
    """The file that describes the model."""
    unread: Unread = field(default_factory=dict)

    @property
    def created(self) -> datetime:
        # A program can set any time; the limits of datetime are narrower.
        seconds = min(max(self.modified // 10**9, 0), 2**33)
        return datetime.fromtimestamp(seconds, UTC)


def open_directory(top: str, path: str) -> int:
    """The directory at `path` below `top`; OSError if it is missing or a link leads out."""
    folder = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        opened = _open_beneath(folder, path or ".")
        return _descend(folder, path) if opened is None else opened
    finally:
        os.close(folder)


def real_path(folder: int) -> str:
    """Where an open folder is now, whatever links led to it."""
    return os.readlink(f"/proc/self/fd/{folder}")


class _OpenHow(ctypes.Structure):
    """The argument of the system call openat2."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def _open_beneath(folder: int, path: str) -> int | None:
    """Open a folder whose links do not lead out; None if the kernel or a container's rules do not
    know the call, or if a rename came in between."""
    how = _OpenHow(os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC_LINKS)
    call = ctypes.CDLL(None, use_errno=True).syscall
    size = ctypes.c_size_t(ctypes.sizeof(how))
    where = (ctypes.c_long(_OPENAT2), ctypes.c_int(folder), ctypes.c_char_p(os.fsencode(path)))
    opened: int = call(*where, ctypes.byref(how), size)
    if opened >= 0:
        return opened
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
        return None
    raise OSError(number, os.strerror(number), path)


def _descend(folder: int, path: str) -> int:
    """Open the path component by component, without links."""
    opened = os.open(".", _FOLDER, dir_fd=folder)
    for name in path.split("/"):
        if name in ("", "."):
            continue
        if name == "..":
            os.close(opened)
            raise PermissionError(f"{path} leads out of its volume")
        try:
            below = os.open(name, _FOLDER, dir_fd=opened)
        finally:
            os.close(opened)
        opened = below
    return opened


@contextlib.contextmanager
def noting(unread: Unread, path: str) -> Iterator[None]:
    """Go on after an error of a path; note it, unless the path is not there."""
    try:
        yield
    except OSError as error:
        if error.errno not in _ABSENT:
            unread[path] = error.strerror or str(error)


def find_versions(directory: int, unread: Unread | None = None) -> Folders:
    """The folders of the versions, at most MAX_VERSIONS."""
    unread = {} if unread is None else unread
    entries, truncated = _entries(directory), False
    rows = _numbered(entries, "", unread)
    with noting(unread, "export"), _opened(directory, "export") as export:
        below = _entries(export)
        truncated = len(below) > MAX_ENTRIES
        have = {row.version for row in rows}
        rows += [row for row in _numbered(below, "export/", unread) if row.version not in have]
    truncated = truncated or len(entries) > MAX_ENTRIES
    if not rows:
        return Folders([Folder(UNVERSIONED, ".", _stamp(os.fstat(directory)))], 0, truncated)
    rows.sort(key=lambda row: exported_models.version_order(row.version), reverse=True)
    return Folders(rows[:MAX_VERSIONS], len(rows[MAX_VERSIONS:]), truncated)


def _numbered(entries: list[os.DirEntry[str]], prefix: str, unread: Unread) -> list[Folder]:
    rows = []
    for entry in entries[:MAX_ENTRIES]:
        name = entry.name
        if not (name.isascii() and name.isdigit() and len(name) <= 18):
            continue
        with noting(unread, prefix + name):
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                rows.append(Folder(name, prefix + name, _stamp(info)))
    return rows


def _stamp(info: os.stat_result) -> tuple[int, int, int, int]:
    return (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)


@contextlib.contextmanager
def _opened(folder: int, path: str) -> Iterator[int]:
    opened = _descend(folder, path)
    try:
        yield opened
    finally:
        os.close(opened)


def _entries(folder: int) -> list[os.DirEntry[str]]:
    """The first entries of a folder; one more than MAX_ENTRIES tells that there are others."""
    with os.scandir(folder) as entries:
        return list(itertools.islice(entries, MAX_ENTRIES + 1))


def read_contents(directory: int, folder: Folder) -> Contents:
    """The files of a version; OSError if it was deleted meanwhile."""
    contents = Contents()
    states: list[tuple[str, int, int]] = []
    with _opened(directory, folder.path) as opened:
        contents.changed = os.fstat(opened).st_ctime_ns
        _walk(opened, "", contents, states, whole=folder.path != ".")
    contents.state = hash(tuple(states))
    contents.format, contents.main = _format([file.path for file in contents.files])
    del contents.files[_MAX_LISTED:]
    return contents


def _walk(
    folder: int, prefix: str, contents: Contents, states: list[tuple[str, int, int]], *, whole: bool
) -> None:
    for entry in sorted(_entries(folder), key=_reading_order):
        contents.entries += 1
        if contents.entries > MAX_ENTRIES:
            contents.truncated = True
            return
        path = prefix + entry.name
        info = None
        with noting(contents.unread, path):
            info = entry.stat(follow_symlinks=False)
        if info is None:
            continue
        if stat.S_ISREG(info.st_mode):
            if not whole and not prefix and not _belongs(entry.name):
                continue
            contents.count += 1
            contents.size += info.st_size
            contents.modified = max(contents.modified, info.st_mtime_ns)
            contents.changed = max(contents.changed, info.st_ctime_ns)
            states.append((path, info.st_size, info.st_mtime_ns))
            shown = path.encode(errors="replace").decode(errors="replace")
            contents.files.append(exported_models.File(shown[:300], info.st_size))
        elif stat.S_ISDIR(info.st_mode):
            if not whole and not prefix and entry.name not in _PARTS:
                continue
            if prefix.count("/") >= _MAX_DEPTH:
                contents.truncated = True
                continue
            contents.changed = max(contents.changed, info.st_ctime_ns)
            with noting(contents.unread, path), _opened(folder, entry.name) as below:
                _walk(below, f"{path}/", contents, states, whole=whole)


def _reading_order(entry: os.DirEntry[str]) -> tuple[bool, bool, str]:
    """Files that describe a model, other files, folders: a walk that is cut short has the first."""
    return entry.is_dir(follow_symlinks=False), not _format([entry.name])[0], entry.name


def _belongs(name: str) -> bool:
    """Whether a file of an unversioned directory is part of a model."""
    return bool(_format([name])[0]) or name in _PARTS


def _format(paths: list[str]) -> tuple[str, str]:
    """The format of a version and the file that describes it; empty if there is no model."""
    if "saved_model.pb" in paths:
        return SAVED_MODEL, "saved_model.pb"
    if "model.npz" in paths:
        return NPZ, "model.npz"
    for name, ending in ((ONNX, ".onnx"), (SAFETENSORS, ".safetensors"), (NPZ, ".npz")):
        for path in paths:
            if path.endswith(ending) and "/" not in path:
                return name, path
    return "", ""


@contextlib.contextmanager
def open_file(directory: int, folder: Folder, name: str) -> Iterator[int]:
    """A regular file of a version, open for reading."""
    with _opened(directory, folder.path) as opened:
        file = os.open(name, _FILE, dir_fd=opened)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise PermissionError(f"{name} is not a regular file")
        yield file
    finally:
        os.close(file)
