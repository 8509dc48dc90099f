"""One look at the directory of a model: which versions are there, complete and new.

A version is complete when its files did not change between two looks, or for SETTLED seconds; a
folder that was renamed into place is complete at the first look at which that is so. A file that
states its own size and is shorter is never complete.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs

from muster.contract.exported_models import (
    NPZ,
    ONNX,
    SAFETENSORS,
    SAVED_MODEL,
    Version,
    version_order,
)
from muster.models import folders, npz_archive, signatures, tensors
from muster.models.tensors import Damaged, TooLarge, text

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from muster.contract.exported_models import Model, Signature, Tensor
    from muster.models.folders import Contents, Folder

SETTLED = 2.0
_LOOKS = 5
"""Looks at a directory in which versions are being written."""
WAIT = _LOOKS * SETTLED
_TENSORS: dict[str, Callable[[int], tuple[Tensor, ...]]] = {
    NPZ: npz_archive.npz,
    SAFETENSORS: tensors.safetensors,
}
_SIGNATURES: dict[str, Callable[[int], tuple[Signature, ...]]] = {
    SAVED_MODEL: signatures.saved_model,
    ONNX: signatures.onnx,
}


@dataclass
class Look:
    """The versions of a directory after one look."""

    versions: dict[str, Version] = field(default_factory=dict)
    """Complete versions by their path."""
    stamps: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    """The state of their folders."""
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
        directory = folders.open_directory(top, path)
    except (FileNotFoundError, NotADirectoryError):
        result.is_missing = True
        return result
    if is_hidden(folders.real_path(directory)):
        os.close(directory)
        return result
    try:
        found, result.omitted, result.truncated = folders.find_versions(directory, result.unread)
        for folder in found:
            if folder.stamp[:2] not in others:
                with folders.noting(result.unread, folder.path):
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
        directory = folders.open_directory(top, path)
        try:
            found, result.omitted, result.truncated = folders.find_versions(directory)
            present = {
                folder.path
                for folder in found
                # The directory itself is always there, its model may be gone.
                if folder.path != "." or folders.read_contents(directory, folder).format
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
    contents = folders.read_contents(directory, folder)
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
    with folders.open_file(directory, folder, contents.main) as file:
        if contents.format in _TENSORS:
            arrays = _TENSORS[contents.format](file)
        else:
            # A version of several files may be of use though one of them cannot be read.
            try:
                functions = _SIGNATURES[contents.format](file)
            except TooLarge:
                pass
            except Damaged:
                problem = f"{text(contents.main)} is cut off, or is no {contents.format}"
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
