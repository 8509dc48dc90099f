"""One look at the directory of a model: which versions are there, complete and new.

A version is complete when its files did not change between two looks, or for SETTLED seconds; a
folder that was renamed into place is complete at the first look at which that is so. A file that
states its own size and is shorter is never complete.

A hostile program may change the files at any time. Every file is opened from the descriptor of its
folder and no link is followed, so a walk never leaves the directory; it is bounded, and neither
blocks on a FIFO nor reads a device. A version is a numbered folder, in the directory itself or in
its folder `export`. A directory without numbered folders may hold one model itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import stat
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.quantity import MAX_INT64
from muster.contract import exported_models
from muster.contract.exported_models import (
    MAX_ENTRIES,
    NPZ,
    ONNX,
    SAFETENSORS,
    SAVED_MODEL,
    UNVERSIONED,
    Version,
    version_order,
)
from muster.models import model_files
from muster.models.model_files import Damaged, TooLarge, text

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from muster.contract.exported_models import Model, Signature, Tensor

    Unread = dict[str, str]
    """Folders and files that are there and cannot be read, with the reason."""


SETTLED = 2.0
_LOOKS = 5
"""Looks at a directory in which versions are being written."""
WAIT = _LOOKS * SETTLED
MAX_VERSIONS = 50
"""Versions of one model that are read: the newest."""
_MAX_DEPTH = 5
_OPENAT2 = 437
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_MAX_LISTED = 50
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors of a path that no longer exists, or is a link, which is never followed."""
_PARTS = ("variables", "assets", "fingerprint.pb", "assets.extra")
"""Folders of a SavedModel that is in the directory itself; others there are not the model's."""
_TENSORS: dict[str, Callable[[int], tuple[Tensor, ...]]] = {
    NPZ: model_files.npz,
    SAFETENSORS: model_files.safetensors,
}
_SIGNATURES: dict[str, Callable[[int], tuple[Signature, ...]]] = {
    SAVED_MODEL: model_files.saved_model,
    ONNX: model_files.onnx,
}


@dataclass
class Look:
    """The versions of a directory after one look."""

    versions: dict[str, Version] = field(default_factory=dict)
    """Complete versions by their path."""
    stamps: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    """The `stamp` of their folders, by path."""
    states: dict[str, int] = field(default_factory=dict)
    """The state of the files of every version that was read."""
    unsettled: list[str] = field(default_factory=list)
    """The paths of versions that are not complete yet."""
    unread: dict[str, str] = field(default_factory=dict)
    """Paths that are there and cannot be read, with the reason."""
    is_missing: bool = False
    """Whether the directory is not there."""
    omitted: int = 0
    """Older versions, which were not read."""
    truncated: bool = False
    """Whether the directory has more entries than were looked at."""

    def listed(self, model: Model) -> Model:
        """The model with the versions of this look, newest first."""
        rows = sorted(self.versions.values(), key=lambda row: version_order(row.version))
        return structs.replace(
            model,
            versions=tuple(reversed(rows)),
            omitted=self.omitted,
            truncated=self.truncated,
        )


def look(
    top: str,
    path: str,
    last: Look,
    job_uid: str,
    others: Container[tuple[int, int]],
    is_hidden: Callable[[str], bool] = lambda _: False,
) -> Look:
    """Read the directory at `path` below `top`; versions that did not change are not read again.

    `others` are the folders (device and inode) that other models have as their versions. A
    directory that `is_hidden` from pods is one that is not there.
    """
    result = Look()
    try:
        directory = open_directory(top, path)
    except (FileNotFoundError, NotADirectoryError):
        result.is_missing = True
        return result
    if is_hidden(real_path(directory)):
        os.close(directory)
        return result
    try:
        found, result.omitted, result.truncated = find_versions(directory, result.unread)
        for folder in found:
            if folder.stamp[:2] not in others:
                with noting(result.unread, folder.path):
                    _read(directory, folder, last, job_uid, result)
    finally:
        os.close(directory)
    return result


def settled_look(top: str, path: str) -> Look:
    """A look at a directory that waits for versions that just change, up to WAIT seconds."""
    result = look(top, path, Look(), "", ())
    for _ in range(_LOOKS):
        if not result.unsettled:
            break
        time.sleep(SETTLED)
        result = look(top, path, result, "", ())
    return result


def remaining(top: str, path: str, last: Look) -> Look:
    """The versions of an earlier look whose folders are still there."""
    result = Look()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        directory = open_directory(top, path)
        try:
            found, result.omitted, result.truncated = find_versions(directory)
            present = {
                folder.path
                for folder in found
                # The directory itself is always there, its model may be gone.
                if folder.path != "." or read_contents(directory, folder).format
            }
        finally:
            os.close(directory)
        result.versions = {key: row for key, row in last.versions.items() if key in present}
        result.stamps = {key: row for key, row in last.stamps.items() if key in present}
    return result


def _read(directory: int, folder: Folder, last: Look, job_uid: str, result: Look) -> None:
    path, before = folder.path, last.versions.get(folder.path)
    # The stamp of a folder does not tell of files that are overwritten in place; those of an
    # unversioned model are.
    if before is not None and path != "." and last.stamps.get(path) == folder.stamp:
        result.versions[path], result.stamps[path] = before, folder.stamp
        return
    contents = read_contents(directory, folder)
    result.states[path] = contents.state
    for name, why in contents.unread.items():
        result.unread[name if path == "." else f"{path}/{name}"] = why
    if not contents.format:
        if contents.count > 0:
            result.unsettled.append(path)
        return
    is_same = last.states.get(path) == contents.state
    # Without a stamp, `before` describes older files than those of the last look.
    if before is not None and is_same and path in last.stamps:
        result.versions[path], result.stamps[path] = before, folder.stamp
        return
    if not is_same and time.time() - contents.changed / 1e9 < SETTLED:
        result.unsettled.append(path)
        if before is not None:  # until the new files are complete
            result.versions[path] = before
        return
    try:
        version = _version(directory, folder, contents, job_uid)
    except Damaged:
        result.unsettled.append(path)
        return
    if before is not None and structs.replace(version, job_uid=before.job_uid) == before:
        version = before  # read again after a restart
    result.versions[path], result.stamps[path] = version, folder.stamp


def _version(directory: int, folder: Folder, contents: Contents, job_uid: str) -> Version:
    arrays: tuple[Tensor, ...] = ()
    functions: tuple[Signature, ...] = ()
    problem = ""
    with open_file(directory, folder, contents.main) as file:
        if contents.format in _TENSORS:
            arrays = _TENSORS[contents.format](file)
        else:
            # A version of several files may be of use though one of them cannot be read.
            try:
                functions = _SIGNATURES[contents.format](file)
            except TooLarge:
                pass
            except Damaged:
                problem = (
                    f"{text(contents.main)} is cut off, or its format is not {contents.format}"
                )
    return Version(
        version=folder.version,
        path=folder.path,
        format=contents.format,
        created=contents.created,
        size=contents.size,
        files=tuple(contents.files),
        file_count=contents.count,
        truncated=contents.truncated,
        tensors=arrays,
        signatures=functions,
        problem=problem,
        job_uid=job_uid,
    )


class Folder(NamedTuple):
    """A version's folder, and its state when it was found."""

    version: str
    path: str
    """Below the model's directory; `.` is the directory itself."""
    stamp: tuple[int, int, int, int]
    """Device, inode, times of change: equal if nothing was added, removed or renamed in it."""


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


def find_versions(directory: int, unread: Unread | None = None) -> tuple[list[Folder], int, bool]:
    """The folders of the versions, newest first, at most MAX_VERSIONS; the number of older ones;
    and whether there are more entries than were looked at."""
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
        return [Folder(UNVERSIONED, ".", _stamp(os.fstat(directory)))], 0, truncated
    rows.sort(key=lambda row: exported_models.version_order(row.version), reverse=True)
    return rows[:MAX_VERSIONS], len(rows[MAX_VERSIONS:]), truncated


def _numbered(entries: list[os.DirEntry[str]], prefix: str, unread: Unread) -> list[Folder]:
    rows = []
    for entry in entries[:MAX_ENTRIES]:
        name = entry.name
        if read_integer(name, most=MAX_INT64) is None:
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
    """The files of a version; OSError if it no longer exists."""
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
