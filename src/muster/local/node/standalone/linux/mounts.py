"""Builds a container's root directory from the steps that `runtime/rootfs.py` plans.

A step is a list whose first item is the operation; paths are paths in the new root:

    ["make", source]               a directory outside the new root, to bind from
    ["dir", path, mode]            a directory, with its parents
    ["file", path, text, mode]     a file with that text
    ["link", path, target]         a symbolic link
    ["bind", source, path, ro]     a host file or directory seen at `path`
    ["host", path]                 the host's file or directory, read-only, if we may read it
    ["hide", path]                 an empty read-only directory over the path
    ["disk", path, mode]           a new directory over one of the host, stored beside the root
    ["tmpfs", path, options]       a new tmpfs
    ["proc" | "sys" | "pts", path] the kernel's file systems, for these namespaces

The shim does this in the container's own mount namespace, so no mount is left when the container
ends; `pause` mounts the file systems that the containers of a pod share.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any

from muster.local.node.standalone.linux import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

Step = list[Any]


def build(root: str, steps: list[Step]) -> None:
    """Build a root directory at `root` and make it our root.

    It is on disk: files that a program writes to `/tmp` do not count as memory.
    """
    kernel.unshare(kernel.CLONE_NEWNS)
    # Private, or the mounts below would appear on the host too.
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    # A bind mount on itself: pivot_root accepts only a mount point.
    kernel.mount(root, root, flags=kernel.MS_BIND)
    run_steps(root, steps)
    kernel.pivot_root(root)


def run_steps(root: str, steps: list[Step]) -> None:
    for operation, *arguments in steps:
        _OPERATIONS[operation](root, *arguments)


def _make(_: str, source: str) -> None:
    os.makedirs(source, exist_ok=True)


def _dir(root: str, path: str, mode: int = 0o755) -> None:
    if not os.path.isdir(root + path):
        os.makedirs(root + path, exist_ok=True)
        os.chmod(root + path, mode)


def _file(root: str, path: str, text: str, mode: int = 0o644) -> None:
    _dir(root, os.path.dirname(path))
    with open(root + path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(root + path, mode)


def _link(root: str, path: str, target: str) -> None:
    _dir(root, os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        os.symlink(target, root + path)


def _bind(root: str, source: str, path: str, read_only: bool) -> None:
    if stat.S_ISDIR(os.stat(source).st_mode):
        _dir(root, path)
    elif not os.path.lexists(root + path):
        _file(root, path, "")
    kernel.mount(source, root + path, flags=kernel.MS_BIND | kernel.MS_REC)
    if read_only:
        kernel.make_read_only(root + path)


def _host(root: str, path: str) -> None:
    with contextlib.suppress(OSError):
        _bind(root, path, path, True)


def _hide(root: str, path: str) -> None:
    kernel.mount("muster", root + path, "tmpfs", kernel.MS_RDONLY, "size=0,mode=755")


def _tmpfs(root: str, path: str, options: str) -> None:
    _dir(root, path)
    kernel.mount("muster", root + path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)


def _disk(root: str, path: str, mode: int) -> None:
    source = f"{root}.over{path}"
    os.makedirs(source, exist_ok=True)
    os.chmod(source, mode)
    _bind(root, source, path, False)


_RESTRICTED = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC


def _proc(root: str, path: str) -> None:
    _dir(root, path)
    try:
        kernel.mount("proc", root + path, "proc", _RESTRICTED)
    except PermissionError:  # inside a container that hides parts of its /proc
        _bind(root, "/proc", path, False)


def _sys(root: str, path: str) -> None:
    _dir(root, path)
    try:
        kernel.mount("sysfs", root + path, "sysfs", _RESTRICTED | kernel.MS_RDONLY)
    except PermissionError:  # a user namespace that does not own the network (hostNetwork)
        _bind(root, "/sys", path, True)


def _pts(root: str, path: str) -> None:
    _dir(root, path)
    kernel.mount("devpts", root + path, "devpts", 0, "newinstance,ptmxmode=0666,mode=0620")


_OPERATIONS: dict[str, Callable[..., None]] = {
    "make": _make,
    "dir": _dir,
    "file": _file,
    "link": _link,
    "bind": _bind,
    "host": _host,
    "hide": _hide,
    "disk": _disk,
    "tmpfs": _tmpfs,
    "proc": _proc,
    "sys": _sys,
    "pts": _pts,
}
