"""Builds a container's root directory from the steps that `runtime/rootfs.py` plans.

A step is a list whose first item is the operation; paths are paths in the new root:

    ["dir", path, mode]            a directory, with its parents
    ["file", path, text, mode]     a file with that text
    ["link", path, target]         a symbolic link
    ["bind", source, path, ro, sub] a host file or directory seen at `path`; with `sub`, only what
                                   this path leads to beneath it, a directory if it is missing
    ["host", path]                 the host's file or directory, read-only, if we may read it
    ["hide", path]                 an empty read-only directory over the path
    ["disk", path, mode]           a new directory over one of the host, stored beside the root
    ["tmpfs", path, options]       a new tmpfs
    ["proc" | "sys" | "pts", path] the kernel's file systems, for these namespaces

The shim does this in the container's own mount namespace, so no mount is left when the container
ends; `pause` mounts the file systems that the containers of a pod share. Other containers of the
pod may change its volumes meanwhile, so every path is resolved in the new root (`beneath`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Any

from muster.local.node.standalone.linux import beneath, hiding, kernel

Step = list[Any]
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RESTRICTED = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC


def build(root: str, steps: list[Step], hidden: list[str], own: list[str]) -> None:
    """Build a root directory at `root` and make it our root.

    It is on disk: files that a program writes to `/tmp` do not count as memory. Hiding comes last,
    so no step and no race can show a hidden directory; `own` directories in them may be mounted.
    """
    kernel.unshare(kernel.CLONE_NEWNS)
    # Private, or the mounts below would appear on the host too.
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    # A bind mount on itself: pivot_root accepts only a mount point.
    kernel.mount(root, root, flags=kernel.MS_BIND)
    run_steps(root, steps)
    hiding.hide(root, hidden, own)
    kernel.pivot_root(root)


def run_steps(root: str, steps: list[Step]) -> None:
    builder = _Builder(root)
    for operation, *arguments in steps:
        getattr(builder, operation)(*arguments)
    builder.close()


class _Builder:
    """One method per operation."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._top = beneath.open_top(root or "/")

    def close(self) -> None:
        os.close(self._top)

    def dir(self, path: str, mode: int = 0o755) -> None:
        with self._parent(path) as (folder, name):
            try:
                os.mkdir(name, dir_fd=folder)
            except FileExistsError:
                return
            if mode != 0o755:  # what the umask leaves
                with _opened(os.open(name, _DIRECTORY, dir_fd=folder)) as fd:
                    os.fchmod(fd, mode)

    def file(self, path: str, text: str, mode: int = 0o644) -> None:
        with self._parent(path) as (folder, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
            fd = os.open(name, flags | os.O_CLOEXEC, dir_fd=folder)
            with open(fd, "w", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(fd, mode)

    def link(self, path: str, target: str) -> None:
        with self._parent(path) as (folder, name), contextlib.suppress(FileExistsError):
            os.symlink(target, name, dir_fd=folder)

    def bind(self, source: str, path: str, read_only: bool, sub: str = "") -> None:
        with _opened(os.open(source, os.O_PATH | os.O_CLOEXEC)) as folder:
            if not sub:
                self._bind(folder, path, read_only)
                return
            with _opened(_beneath(folder, sub)) as entry:
                self._bind(entry, path, read_only)

    def host(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self.bind(path, path, True)

    def hide(self, path: str) -> None:
        with self._target(path) as target:
            kernel.mount("muster", target, "tmpfs", kernel.MS_RDONLY, "size=0,mode=755")

    def tmpfs(self, path: str, options: str) -> None:
        with self._target(path) as target:
            kernel.mount("muster", target, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)

    def disk(self, path: str, mode: int) -> None:
        source = f"{self._root}.over{path}"
        os.makedirs(source, exist_ok=True)
        os.chmod(source, mode)
        self.bind(source, path, False)

    def proc(self, path: str) -> None:
        try:
            with self._target(path) as target:
                kernel.mount("proc", target, "proc", _RESTRICTED)
        except PermissionError:  # inside a container that hides parts of its /proc
            self.bind("/proc", path, False)

    def sys(self, path: str) -> None:
        try:
            with self._target(path) as target:
                kernel.mount("sysfs", target, "sysfs", _RESTRICTED | kernel.MS_RDONLY)
        except PermissionError:  # a user namespace that does not own the network (hostNetwork)
            self.bind("/sys", path, True)

    def pts(self, path: str) -> None:
        with self._target(path) as target:
            kernel.mount("devpts", target, "devpts", 0, "newinstance,ptmxmode=0666,mode=0620")

    def _bind(self, source: int, path: str, read_only: bool) -> None:
        if not stat.S_ISDIR(os.fstat(source).st_mode):
            self._touch(path)
        with self._target(path) as target:
            kernel.mount(_path(source), target, flags=kernel.MS_BIND | kernel.MS_REC)
        if read_only:
            # Opened again: the descriptor from before is of the directory under the new mount.
            with _opened(beneath.open_in_root(self._top, path)) as mounted:
                if not os.path.samestat(os.fstat(mounted), os.fstat(source)):
                    raise OSError(errno.EBUSY, "the mount point was changed", path)
                kernel.make_read_only(_path(mounted))

    def _touch(self, path: str) -> None:
        """Make an empty file to mount on, if nothing is there."""
        with self._parent(path) as (folder, name), contextlib.suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o644, dir_fd=folder))

    @contextlib.contextmanager
    def _parent(self, path: str) -> Any:
        """The directory of a path, open, and the name in it."""
        folder, name = os.path.split(path)
        with _opened(beneath.open_in_root(self._top, folder)) as fd:
            yield fd, name

    @contextlib.contextmanager
    def _target(self, path: str) -> Any:
        """A mount point as a path that cannot lead elsewhere; missing directories are made."""
        with _opened(beneath.open_in_root(self._top, path)) as fd:
            yield _path(fd)


def _beneath(folder: int, sub: str) -> int:
    try:
        return beneath.open_beneath(folder, sub)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise ValueError(f'subPath "{sub}" leads out of its volume') from error


@contextlib.contextmanager
def _opened(fd: int) -> Any:
    try:
        yield fd
    finally:
        os.close(fd)


def _path(fd: int) -> str:
    return f"/proc/self/fd/{fd}"
