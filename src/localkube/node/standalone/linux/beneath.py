"""Opens paths whose directories and links a hostile program may change at the same moment.

A path is resolved from an open directory, the top, and never above it:
- `open_beneath`: a link that leads out of the top is an error (EXDEV), as for a volume's `subPath`;
- `open_in_root`: the top is `/` for links and `..`, as for mount points in a container's root.
The result is a descriptor (O_PATH) and not a path: what was checked is what gets mounted, by way of
`/proc/self/fd`. The kernel does it in one call (openat2, Linux 5.6). By hand, the walk opens one
component at a time without following it; for `..` it returns to the directory it came from.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from localkube.node.standalone.linux import kernel
from localkube.node.standalone.linux.files import opened

_FLAGS = os.O_PATH | os.O_CLOEXEC
_MAX_LINKS = 40  # the kernel's own limit


def open_top(path: str) -> int:
    return os.open(path, _FLAGS | os.O_DIRECTORY)


def open_beneath(top: int, path: str) -> int:
    """The file or directory at `path`; missing directories are made."""
    return _open(top, path.lstrip("/"), kernel.RESOLVE_BENEATH)


def open_in_root(top: int, path: str) -> int:
    """The file or directory at `path` as a program with the root `top` sees it; missing
    directories are made."""
    return _open(top, path, kernel.RESOLVE_IN_ROOT)


def _open(top: int, path: str, resolve: int) -> int:
    if "/" in path.strip("/"):  # one step needs no help of the kernel
        with contextlib.suppress(FileNotFoundError, NotImplementedError):
            return kernel.openat2(top, path, _FLAGS, resolve | kernel.RESOLVE_NO_MAGICLINKS)
    return walk(top, path, in_root=resolve == kernel.RESOLVE_IN_ROOT)


def walk(top: int, path: str, *, in_root: bool) -> int:
    """The same by hand, with missing directories made."""
    opened = [os.dup(top)]  # the directories from the top to the current one
    names, links = path.split("/")[::-1], 0
    try:
        while names:
            name = names.pop()
            if name == ".." and len(opened) == 1 and not in_root:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
            if name == ".." and len(opened) > 1:
                os.close(opened.pop())
            if name in ("", ".", ".."):
                continue
            fd = _entry(opened[-1], name)
            if not stat.S_ISLNK(os.fstat(fd).st_mode):
                opened.append(fd)
                continue
            links += 1
            names += _target(fd, path, links, in_root=in_root).split("/")[::-1]
            if names[-1] == "":  # an absolute link: from the top again
                while len(opened) > 1:
                    os.close(opened.pop())
        return opened.pop()
    finally:
        for fd in opened:
            os.close(fd)


def _entry(folder: int, name: str) -> int:
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError):
            return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder)


def _target(link: int, path: str, links: int, *, in_root: bool) -> str:
    with opened(link):
        target = os.readlink("", dir_fd=link)
    code = errno.ELOOP if links > _MAX_LINKS else 0
    if target.startswith("/") and not in_root:
        code = errno.EXDEV
    if code:
        raise OSError(code, os.strerror(code), path)
    return target
