"""The disk that a pod uses: its emptyDir volumes, its private directories and its logs.

All of them are in the pod's own folder. Directories of the host are mounted only inside the pod's
namespaces, so they do not count, and neither do volumes in memory. As with `du`, a file that is
deleted and still open is not seen.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = 512
"""Bytes of the unit of st_blocks, whatever the file system."""


@dataclass(frozen=True)
class DiskUsage:
    """Bytes on disk."""

    volumes: dict[str, int] = field(default_factory=dict)
    """By name; volumes with files of API objects too, which are small."""
    containers: dict[str, int] = field(default_factory=dict)
    """By name: private directories and logs."""
    other: int = 0

    @property
    def total(self) -> int:
        return sum(self.volumes.values()) + sum(self.containers.values()) + self.other


class Disk(NamedTuple):
    """The file system of the pods' folders, in bytes."""

    size: int
    free: int

    @classmethod
    def of(cls, folder: Path) -> Disk:
        info = os.statvfs(folder)
        return cls(info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize)


def disk_usage(pod: Path) -> DiskUsage:
    """The usage of the pod with this folder; nothing if it has none."""
    volumes, containers, other = {}, {}, 0
    for entry in _entries(str(pod)):
        if entry.name == "volumes":
            volumes = {each.name: _size(each) for each in _entries(entry.path)}
        elif entry.name == "containers":
            containers = {each.name: _size(each) for each in _entries(entry.path)}
        else:
            other += _size(entry)
    return DiskUsage(volumes, containers, other)


def _size(top: os.DirEntry[str]) -> int:
    """Bytes on disk of a file, or of a directory with all that is in it."""
    total, todo = 0, [top]
    seen: set[tuple[int, int]] = set()
    while todo:
        entry = todo.pop()
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:  # deleted meanwhile
            continue
        if entry.is_dir(follow_symlinks=False):
            todo += _entries(entry.path)
        elif info.st_nlink > 1:
            if (info.st_dev, info.st_ino) in seen:
                continue
            seen.add((info.st_dev, info.st_ino))
        # Blocks, not the size: a sparse file takes less disk than its size.
        total += info.st_blocks * _BLOCK
    return total


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # deleted meanwhile, or not ours to read
        return []
