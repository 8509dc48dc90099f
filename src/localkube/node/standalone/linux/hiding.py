"""Hides directories of the host in a new root, wherever it shows them.

The plan of a root already leaves them out. This is the last step, and it does not trust the plan:
it asks the kernel which file system, and which directory of it, every mount of the new root shows.
A hidden directory has a place of this kind too. So neither links, nor other names of a directory,
nor races while the root was built matter. Then:
- a mount that shows a directory around a hidden one gets an empty file system over that place;
- a mount of a hidden directory itself, or of something in it, is covered whole, unless it is one of
  the `own` directories inside it: the pod's volumes, its image, the interpreter.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from localkube.node.standalone.linux import kernel

_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Place(NamedTuple):
    """A directory by its file system and its path there, which is empty for its root."""

    device: str
    path: str

    def contains(self, other: Place) -> bool:
        if self.device != other.device or not other.path.startswith(self.path):
            return False
        return other.path[len(self.path) :][:1] in ("", "/")


class MountPoint(NamedTuple):
    number: int
    shown: Place
    path: str


def hide(root: str, hidden: list[str], own: list[str]) -> None:
    """Cover every hidden directory that a mount at or below `root` shows."""
    mounts = read_mounts()
    places = [place for path in hidden if (place := _place(path, mounts))]
    exceptions = [place for path in own if (place := _place(path, mounts))]
    inside = [m for m in mounts.values() if m.path == root or m.path.startswith(f"{root}/")]
    for mount in inside:
        for place in places:
            if place.contains(mount.shown):
                allowed = (e for e in exceptions if e != place and place.contains(e))
                if not any(e.contains(mount.shown) for e in allowed):
                    _cover(mount, mount.path)
            elif mount.shown.contains(place):
                below = place.path[len(mount.shown.path) :]
                _cover(mount, mount.path + below)


def is_near(path: str, hidden: list[str]) -> bool:
    """Whether a directory of the host is around, in, or the same as a hidden one."""
    mounts = read_mounts()
    place = _place(path, mounts)
    places = [each for name in hidden if (each := _place(name, mounts))]
    return place is None or any(place.contains(each) or each.contains(place) for each in places)


def read_mounts() -> dict[int, MountPoint]:
    """All mounts of this mount namespace, by number."""
    mounts = {}
    with open("/proc/self/mountinfo", "rb") as file:
        text = os.fsdecode(file.read())
    for line in text[:-1].split("\n"):  # a path may contain any other end of a line
        number, _, device, shown, path, _ = line.split(" ", 5)
        place = Place(device, _unescaped(shown).rstrip("/"))
        mounts[int(number)] = MountPoint(int(number), place, _unescaped(path))
    return mounts


def _place(path: str, mounts: dict[int, MountPoint]) -> Place | None:
    """The place of a path on the host; None if it does not exist."""
    path = os.path.realpath(path)
    try:
        fd = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        mount = mounts[_mount_number(fd)]
    finally:
        os.close(fd)
    below = path[len(mount.path.rstrip("/")) :]
    return Place(mount.shown.device, mount.shown.path + below.rstrip("/"))


def _cover(mount: MountPoint, path: str) -> None:
    """Mount an empty directory or file over a path, unless another mount covers it already."""
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:  # the mount that covers it lacks the path
        return
    try:
        if _mount_number(fd) != mount.number:
            return
        target = f"/proc/self/fd/{fd}"
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            kernel.mount("muster", target, "tmpfs", kernel.MS_RDONLY, "size=0,mode=755")
        else:
            kernel.mount("/dev/null", target, flags=kernel.MS_BIND)
    finally:
        os.close(fd)


def _mount_number(fd: int) -> int:
    """The number of the mount that an open file is in."""
    with open(f"/proc/self/fdinfo/{fd}", "rb", buffering=0) as file:
        return int(file.read(1024).partition(b"mnt_id:")[2].split()[0])


def _unescaped(text: str) -> str:
    """Spaces and other separators are octal numbers in this file."""
    if "\\" not in text:
        return text
    octal = os.fsencode(text).decode("unicode_escape")
    return os.fsdecode(octal.encode("latin-1"))
