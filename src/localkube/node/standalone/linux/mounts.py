"""Builds a container's root directory from the steps that `runtime/rootfs.py` plans.

A step is a list whose first item is the operation; paths are paths in the new root:

    ["dir", path, mode]            a directory, with its parents
    ["file", path, text, mode]     a file with that text
    ["link", path, target]         a symbolic link
    ["bind", source, path, ro, sub] a host file or directory seen at `path`; with `sub`, only what
                                   this path leads to beneath it, a directory if it is missing
    ["host", path]                 the host's file or directory, read-only, if we may read it
    ["changeable", source, path]   a host directory seen at `path`; changes are stored beside the
                                   root, and read-only where the kernel has no overlay for us
    ["hide", path]                 an empty read-only directory over the path
    ["disk", path, mode]           a new directory over one of the host, stored beside the root
    ["proc" | "sys" | "pts", path] the kernel's file systems, for these namespaces

The shim does this in the container's own mount namespace, so no mount is left when the container
ends. Other containers of the pod may change its volumes in between, so every path is resolved in
the new root (`beneath`).

Some file systems are shared by the containers of a pod: /proc, /dev/shm and the volumes in memory.
`pause` mounts them in the pod's mount namespace, which has little else, and each container gets
copies of these mounts. So no process that programs of the pod can see is in a mount namespace that
shows the cluster's state.

The plan already leaves hidden directories of the host out. `hide` is the last step, and it does not
trust the plan: it asks the kernel which file system, and which directory of it, every mount of the
new root shows. A hidden directory has a place of this kind too. So neither links, nor other names
of a directory, nor races while the root was built matter. Then:
- a mount that shows a directory around a hidden one gets an empty file system over that place;
- a mount of a hidden directory itself, or of something in it, is covered whole, unless it is one of
  the `own` directories inside it: the pod's volumes, its image, the interpreter.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Any, NamedTuple

from localkube.node.standalone.linux import beneath, kernel
from localkube.node.standalone.linux.files import opened

Step = list[Any]
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PROGRAMS = ("/bin", "/lib", "/lib32", "/lib64", "/usr", "/nix", "/gnu")
"""Where `sleep` and its libraries are."""
_RESTRICTED = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def share(folder: str, tmpfs: list[tuple[str, str]], hidden: list[str]) -> None:
    """Mount the root directory of a pod's first process over the pod's folder.

    It has what the containers share: `/proc`, and these tmpfs by name and options.
    """
    kernel.mount("muster", folder, "tmpfs", _RESTRICTED, "size=4k,mode=755")
    os.mkdir(f"{folder}/volumes")
    for name, options in tmpfs:
        os.mkdir(f"{folder}/{name}")
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        kernel.mount("muster", f"{folder}/{name}", "tmpfs", flags, options)
    os.mkdir(f"{folder}/proc")
    try:
        kernel.mount("proc", f"{folder}/proc", "proc", _RESTRICTED)
    except PermissionError:  # inside a container that hides parts of its /proc
        os.rmdir(f"{folder}/proc")
    for path in _PROGRAMS:
        if os.path.islink(path):
            os.symlink(os.readlink(path), folder + path)
        elif os.path.isdir(path):
            os.mkdir(folder + path)
            kernel.mount(path, folder + path, flags=kernel.MS_BIND | kernel.MS_REC)
            with opened(os.open(folder + path, os.O_PATH | os.O_CLOEXEC)) as mounted:
                kernel.make_read_only(mounted)
    hide(folder, hidden, [])
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | _RESTRICTED
    kernel.mount("none", folder, flags=flags)


def build(
    root: str,
    steps: list[Step],
    hidden: list[str],
    own: list[str],
    pod: tuple[str, int],
) -> int:
    """Build a root directory at `root` and make it our root; returns our mount namespace.

    `pod` is the pod's folder and its mount namespace, with what its containers share.

    It is on disk: files that a program writes to `/tmp` do not count as memory. Hiding comes last,
    so no step and no race can show a hidden directory; `own` directories in them may be mounted.
    """
    kernel.unshare(kernel.CLONE_NEWNS)
    # Private, or the mounts below would appear on the host too.
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    ours = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    folder, pods = pod
    copies = _copy_shared(pods, ours)
    proc = copies.pop("proc", -1)
    for name, copy in copies.items():
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        with opened(os.open(f"{folder}/{name}", os.O_PATH | os.O_CLOEXEC)) as target:
            kernel.attach(copy, target)
    # A bind mount on itself: pivot_root accepts only a mount point.
    kernel.mount(root, root, flags=kernel.MS_BIND)
    with opened(beneath.open_top(root)) as top:
        builder = _Builder(root, top, proc, hidden)
        for operation, *arguments in steps:
            getattr(builder, operation)(*arguments)
    hide(root, hidden, own)
    kernel.pivot_root(root)
    return ours


def _copy_shared(pods: int, ours: int) -> dict[str, int]:
    """Copies of the mounts that a pod's containers share, by path; we are in `ours` afterwards."""
    kernel.setns(pods, kernel.CLONE_NEWNS)
    names = ["shm", *(f"volumes/{name}" for name in os.listdir("/volumes"))]
    if os.path.isdir("/proc"):
        names.append("proc")
    copies = {name: kernel.copy_mount(f"/{name}") for name in names}
    kernel.setns(ours, kernel.CLONE_NEWNS)
    return copies


class _Builder:
    """One method per operation."""

    def __init__(self, root: str, top: int, proc: int, hidden: list[str]) -> None:
        self._root, self._top = root, top
        self._proc, self._hidden = proc, hidden

    def dir(self, path: str, mode: int = 0o755) -> None:
        parent, name = os.path.split(path)
        with self._open(parent) as folder:
            try:
                os.mkdir(name, dir_fd=folder)
            except FileExistsError:
                return
            if mode != 0o755:  # what the umask leaves
                with opened(os.open(name, _DIRECTORY, dir_fd=folder)) as fd:
                    os.fchmod(fd, mode)

    def file(self, path: str, text: str, mode: int = 0o644) -> None:
        parent, name = os.path.split(path)
        with self._open(parent) as folder:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
            fd = os.open(name, flags | os.O_CLOEXEC, dir_fd=folder)
            with open(fd, "w", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(fd, mode)

    def link(self, path: str, target: str) -> None:
        parent, name = os.path.split(path)
        with self._open(parent) as folder, contextlib.suppress(FileExistsError):
            os.symlink(target, name, dir_fd=folder)

    def bind(self, source: str, path: str, read_only: bool, sub: str = "") -> None:
        with opened(os.open(source, os.O_PATH | os.O_CLOEXEC)) as folder:
            if not sub:
                self._bind(folder, path, read_only)
                return
            with opened(_beneath(folder, sub)) as entry:
                self._bind(entry, path, read_only)

    def host(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self.bind(path, path, True)

    def changeable(self, source: str, path: str) -> None:
        # An overlay shows its lower directory without the mounts in it, so it would show what they
        # hide; and `hiding` cannot tell which directory of the host an overlay shows.
        if is_near(source, self._hidden) or not self._overlay(source, path):
            self.bind(source, path, True)

    def _overlay(self, source: str, path: str) -> bool:
        """Mount the directory with an own layer for changes; False if the kernel refuses."""
        layer = f"{self._root}.changes{path}"
        folders = {"lowerdir": source, "upperdir": f"{layer}/upper", "workdir": f"{layer}/work"}
        os.makedirs(folders["workdir"], exist_ok=True)
        os.makedirs(folders["upperdir"], exist_ok=True)
        os.chmod(folders["upperdir"], 0o755)
        with contextlib.ExitStack() as stack:
            options = []
            for option, folder in folders.items():
                fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                # By descriptor: commas and colons in a path would end the option.
                options.append(f"{option}={_path(stack.enter_context(opened(fd)))}")
            target = _path(stack.enter_context(self._open(path)))
            # Attributes that need no rights beyond our user namespace; Linux 5.11 or newer.
            options.append("userxattr")
            try:
                kernel.mount("muster", target, "overlay", data=",".join(options))
            except OSError:
                return False
        return True

    def hide(self, path: str) -> None:
        with self._open(path) as target:
            _cover_with_nothing(target)

    def disk(self, path: str, mode: int) -> None:
        source = f"{self._root}.over{path}"
        os.makedirs(source, exist_ok=True)
        os.chmod(source, mode)
        self.bind(source, path, False)

    def proc(self, path: str) -> None:
        if self._proc < 0:  # `share` could not mount it
            self.bind("/proc", path, False)
            return
        with self._open(path) as target:
            kernel.attach(self._proc, target)

    def sys(self, path: str) -> None:
        try:
            with self._open(path) as target:
                kernel.mount("sysfs", _path(target), "sysfs", _RESTRICTED | kernel.MS_RDONLY)
        except PermissionError:  # a user namespace that does not own the network (hostNetwork)
            self.bind("/sys", path, True)

    def pts(self, path: str) -> None:
        with self._open(path) as target:
            kernel.mount(
                "devpts", _path(target), "devpts", 0, "newinstance,ptmxmode=0666,mode=0620"
            )

    def _bind(self, source: int, path: str, read_only: bool) -> None:
        if not stat.S_ISDIR(os.fstat(source).st_mode):  # mounted on a file: make one if needed
            parent, name = os.path.split(path)
            with self._open(parent) as folder, contextlib.suppress(FileExistsError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                os.close(os.open(name, flags, 0o644, dir_fd=folder))
        with self._open(path) as target:
            kernel.mount(_path(source), _path(target), flags=kernel.MS_BIND | kernel.MS_REC)
        if read_only:
            # Opened again: the descriptor from before is of the directory under the new mount.
            with self._open(path) as mounted:
                if not os.path.samestat(os.fstat(mounted), os.fstat(source)):
                    raise OSError(errno.EBUSY, "the mount point was changed", path)
                kernel.make_read_only(mounted)

    def _open(self, path: str) -> contextlib.AbstractContextManager[int]:
        """A file or directory of the new root; missing directories are made."""
        return opened(beneath.open_in_root(self._top, path))


def _beneath(folder: int, sub: str) -> int:
    try:
        return beneath.open_beneath(folder, sub)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise ValueError(f'subPath "{sub}" leads out of its volume') from error


def _path(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


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
    with opened(fd):
        mount = mounts[_mount_number(fd)]
    below = path[len(mount.path.rstrip("/")) :]
    return Place(mount.shown.device, mount.shown.path + below.rstrip("/"))


def _cover(mount: MountPoint, path: str) -> None:
    """Mount an empty directory or file over a path, unless another mount covers it already."""
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:  # the mount that covers it lacks the path
        return
    with opened(fd):
        if _mount_number(fd) != mount.number:
            return
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            _cover_with_nothing(fd)
        else:
            kernel.mount("/dev/null", _path(fd), flags=kernel.MS_BIND)


def _cover_with_nothing(target: int) -> None:
    """Mount an empty read-only directory over an open one."""
    kernel.mount("muster", _path(target), "tmpfs", kernel.MS_RDONLY, "size=0,mode=755")


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
