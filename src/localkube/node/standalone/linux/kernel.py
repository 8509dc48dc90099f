"""Linux system calls that Python 3.11 lacks: namespaces, mounts, and dying with the parent.

Each function raises OSError, like the functions of the `os` module.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from localkube.node.standalone.linux import files

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

# In the order in which they are entered. The user namespace is first: it gives the rights to enter
# the others. Mounts are last: with them /proc becomes another one.
NAMESPACES = {
    "user": CLONE_NEWUSER,
    "net": CLONE_NEWNET,
    "uts": CLONE_NEWUTS,
    "ipc": CLONE_NEWIPC,
    "pid": CLONE_NEWPID,
    "mnt": CLONE_NEWNS,
}

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10

_MNT_DETACH = 0x2
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1
_OPEN_TREE_CLONE = 0x1
_MOVE_MOUNT_EMPTY_PATHS = 0x44
_CLONE_PARENT = 0x8000
_CLONE_ARGUMENTS = 8  # 64-bit numbers; the first one has the flags
# The same on every architecture.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_CLONE3 = 428, 429, 435
_SYS_OPENAT2, _SYS_MOUNT_SETATTR = 437, 442
_PF_EXITING = 0x4
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, subject: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)


def _syscall(number: int, *arguments: int | bytes) -> int:
    """A system call that the C library has no function for; negative if it fails."""
    # Numbers are `long`: as a plain int, the upper half of the register may be anything.
    numbers = (ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)
    return int(_libc.syscall(ctypes.c_long(number), *numbers))


def unshare(flags: int) -> None:
    """Leave the namespaces of `flags` for new ones."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, flag: int) -> None:
    """Enter the namespace of `fd`; a pid namespace applies only to later children."""
    _checked(_libc.setns(ctypes.c_int(fd), ctypes.c_int(flag)), "setns")


def fork_sibling() -> int:
    """Like `os.fork`, but the new process is a child of our parent.

    With one thread only, and for a process that soon becomes another program: Python does not
    learn of it.
    """
    # All zero but the flags: the memory is copied, and the parent gets the same signal as for us.
    arguments = (ctypes.c_uint64 * _CLONE_ARGUMENTS)(_CLONE_PARENT)
    call = ctypes.PyDLL(None, use_errno=True).syscall  # keeps the interpreter's lock
    result = call(ctypes.c_long(_SYS_CLONE3), arguments, ctypes.c_size_t(ctypes.sizeof(arguments)))
    _checked(result, "clone3")
    return int(result)


def set_command_line(words: list[str]) -> None:
    """Show these words as our command line, as far as the space of our arguments suffices."""
    # The fields after the name, which is in parentheses: arg_start and arg_end are numbers 48, 49.
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"\0".join(word.encode() for word in words)[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def die_with_parent(signal: int, parent: int = 0) -> None:
    """Receive `signal` when the parent exits, however it exits.

    If the parent is not the process `parent` any more, it has exited before this call.
    """
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal), 0, 0, 0), "prctl")
    if parent and os.getppid() != parent:
        raise ProcessLookupError(errno.ESRCH, "the parent has exited")


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent exits.

    By default init becomes their parent, and in a container init often does not reap.
    """
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def reap_orphans() -> None:
    """Reap the dead processes of pods that we adopted.

    A pid namespace exists until the last zombie in it is reaped. Our other children, for which
    other parts of this process may wait, are in our own pid namespace and are left alone.
    """
    for pid in pids():
        try:
            lines = files.read(f"/proc/{pid}/status").splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            nested = len(status.get("NSpid", "").split()) > 1
            if nested and status["PPid"] == str(os.getpid()) and status["State"][0] == "Z":
                os.waitpid(pid, os.WNOHANG)
        except OSError:  # it is gone, or was reaped by another thread
            continue


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _checked(result, target)


def unmount(target: str, flags: int = 0) -> None:
    _checked(_libc.umount2(target.encode(), ctypes.c_int(flags)), target)


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """Open a path under the rules of `resolve`; NotImplementedError before Linux 5.6."""
    how = struct.pack("=3Q", flags, 0, resolve)
    result = _syscall(_SYS_OPENAT2, folder, os.fsencode(path), how, len(how))
    # EPERM: a container whose seccomp filter does not know the call. EAGAIN: a race with a rename.
    if result < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
        raise NotImplementedError
    _checked(result, path)
    return result


def make_read_only(fd: int) -> None:
    """Make the mount of an open directory or file, and everything mounted below it, read-only."""
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    attributes = struct.pack("=4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    if _syscall(_SYS_MOUNT_SETATTR, fd, b"", flags, attributes, len(attributes)) < 0:
        # Before Linux 5.12: only this mount.
        mount("none", f"/proc/self/fd/{fd}", flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def copy_mount(path: str) -> int:
    """A copy of the file or directory at `path`, with everything mounted below it.

    The descriptor can be attached in another mount namespace.
    """
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE
    result = _syscall(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)
    _checked(result, path)
    return result


def attach(copy: int, target: int) -> None:
    """Mount what `copy_mount` returned on an open directory."""
    result = _syscall(_SYS_MOVE_MOUNT, copy, b"", target, b"", _MOVE_MOUNT_EMPTY_PATHS)
    _checked(result, "move_mount")


def pivot_root(root: str) -> None:
    """Make the mount at `root` the root directory and unmount the old one."""
    # Without a directory for the old root: it is mounted over the new one, and then unmounted.
    os.chdir(root)
    _checked(_libc.pivot_root(b".", b"."), root)
    unmount(".", _MNT_DETACH)
    os.chdir("/")


def pids() -> list[int]:
    """All processes that this one can see."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def boot_id() -> str:
    """A text that is different after every start of the machine."""
    return files.read("/proc/sys/kernel/random/boot_id").strip()


def is_ending_pid_namespace(pid: int) -> bool:
    """Whether this first process of a pid namespace is dead and waits only for zombies' parents."""
    try:
        ending = files.read(f"/proc/{pid}/statm").startswith("0 ")  # it has no memory any more
        others = [other for other in pids() if other != pid and start_time(other)]
        return ending and not any(_share_namespace("pid", other, pid) for other in others)
    except OSError:  # it is gone
        return False


def _share_namespace(name: str, one: int, other: int) -> bool:
    try:
        return os.path.samefile(f"/proc/{one}/ns/{name}", f"/proc/{other}/ns/{name}")
    except OSError:  # it is gone, or another user's
        return False


def start_time(pid: int) -> int:
    """When a process started, in ticks since boot; 0 if it has exited.

    Together with the PID it identifies the process.
    """
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else 0  # Z, X: zombie, dead


def parent(pid: int) -> int:
    """The PID of a process's parent; 0 if the process has exited."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def is_exiting(pid: int) -> bool:
    """Whether a process has begun to exit.

    The first process of a pod stays in this state until every process of the pod is reaped. Until
    then nothing can be started in the pod.
    """
    fields = _stat(pid)
    return not fields or bool(int(fields[6]) & _PF_EXITING)


def _stat(pid: int) -> list[str]:
    """The fields after the name in a process's `stat`; empty if there is no such process.

    The name is in parentheses and may contain spaces and parentheses, so the last one counts.
    """
    try:
        return files.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # the second one while it is read
        return []


def same_namespace(mounts: int, pid: int | str) -> bool:
    """Whether a process exists and has the mount namespace of this descriptor."""
    try:
        return os.path.samestat(os.fstat(mounts), os.stat(f"/proc/{pid}/ns/mnt"))
    except OSError:
        return False


def _is_ours(pid: int, name: str) -> bool:
    return os.path.samefile(f"/proc/{pid}/ns/{name}", f"/proc/self/ns/{name}")


def open_namespaces(pid: int, names: tuple[str, ...] = tuple(NAMESPACES)) -> dict[str, int]:
    """Descriptors of the namespaces of a process that differ from ours."""
    return {
        name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        for name in names
        if not _is_ours(pid, name)
    }


def enter(fds: dict[str, int]) -> None:
    """Enter the namespaces of `open_namespaces`, in the order that works."""
    for name, flag in NAMESPACES.items():
        if name in fds:
            setns(fds[name], flag)
