"""The files that an ended pod wrote to private directories: they are discarded with it.

A container's new directories are beside the record of its attempt. All entries in them that the
plan of its root directory does not name were written by its programs. Temporary directories and
small files with a leading dot (caches, settings) are not worth a message.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from localkube.node.runtime.rootfs.plan import PRIVATE_DIRECTORIES
from localkube.node.standalone.linux import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_TEMPORARY = (*PRIVATE_DIRECTORIES, "/dev", "/proc", "/sys")
_LARGE = 1 << 20
"""Bytes from which on a file counts although its name has a leading dot."""
_SHOWN, _COUNTED = 3, 1000
_MAX_DEPTH = 100
"""Levels of folders that are searched: a program may make thousands."""


def names_of_discarded_files(pod: Path) -> str:
    """The first files of the pod with this folder, and how many more there are; empty if none."""
    paths = [_readable(path) for path in islice(_written(pod), _COUNTED + 1)]
    more = len(paths) - _SHOWN
    if more <= 0:
        return ", ".join(paths)
    count = str(more) if len(paths) <= _COUNTED else f"at least {more}"
    return f"{', '.join(paths[:_SHOWN])} and {count} more"


def _readable(path: str) -> str:
    """The path as the API accepts it: file names are bytes, and may be no text."""
    return os.fsencode(path).decode(errors="replace")


def _written(pod: Path) -> Iterator[str]:
    for container in sorted(pod.glob("containers/*")):
        numbers = [int(name) for name in os.listdir(container) if name.isdigit()]
        if numbers:
            yield from _written_in_attempt(container / str(max(numbers)))
    # The working directory of a pod without a root directory of its own.
    yield from _Search(str(pod / "work"), {}).walk()


def _written_in_attempt(attempt: Path) -> Iterator[str]:
    steps = files.read_json(attempt / "spec").get("steps") or []
    planned = {step[2] if step[0] == "bind" else step[1]: step[0] for step in steps}
    yield from _Search(str(attempt / "root"), planned).walk()
    # A new directory over one of the host is stored beside the root.
    over = {path: "dir" if action == "disk" else action for path, action in planned.items()}
    for path in [path for path, action in planned.items() if action == "disk"]:
        for parent in PurePosixPath(path).parents:
            over.pop(str(parent), None)  # mounted from the host, e.g. /home
    yield from _Search(str(attempt / "root.over"), over).walk()


class _Search:
    """Files below `root` that are not planned; a plan is an operation by path."""

    def __init__(self, root: str, planned: Mapping[str, str]) -> None:
        self._root = root
        self._planned = planned
        self._above = {str(parent) for path in planned for parent in PurePosixPath(path).parents}

    def walk(self, path: str = "", *, temporary: bool = False) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(self._root + path), key=lambda entry: entry.name)
        except OSError:
            return
        is_deepest = path.count("/") >= _MAX_DEPTH
        for entry in entries:
            place = f"{path}/{entry.name}"
            planned = place in self._planned
            if (planned and self._planned[place] != "dir") or entry.name == "__pycache__":
                continue  # the mount point of a file or directory that stays, or noise
            if entry.is_dir(follow_symlinks=False):
                if is_deepest:
                    continue
                # The home or another new directory may be inside a temporary one.
                inside = place in _TEMPORARY or (temporary and not planned)
                if not inside or planned or place in self._above:
                    yield from self.walk(place, temporary=inside)
            elif not temporary and _counts(place, entry):
                yield place


def _counts(place: str, entry: os.DirEntry[str]) -> bool:
    if "/." not in place:
        return True
    try:
        return entry.stat(follow_symlinks=False).st_size >= _LARGE
    except OSError:  # an ordinary user may list a directory without the right to enter it
        return False
