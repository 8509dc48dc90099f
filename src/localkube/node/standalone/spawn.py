"""Starts a program as a direct child, after preparing the child (namespaces, root directory).

Two processes come one after the other. The first one is outside the pod's pid namespace: it enters
the other namespaces, builds the root directory and closes every descriptor that the program does
not get. Only then it enters the pid namespace and forks the second one, as a sibling, which becomes
the program. So programs of the pod, which may look into all processes that they see
(`/proc/PID/root`, `cwd`, `fd`), never see one that has more than its container.

The child has one end of a socket pair that exec closes. Messages are the descriptors of `prepare`,
then the PID, or the reason why the program does not run, which becomes `StartFailed`.

The daemon creates the control groups and passes their paths in the shim's spec as `limits`:
`{"groups", "events"}`; without a limit the object is empty.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import selectors
import signal
import socket
import struct
import termios
import warnings  # noqa: F401 (os.execvpe imports it, after the root directory has changed)
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from localkube.node.standalone.linux import files, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_SPACE, _CANNOT_RUN, _NOT_FOUND = 125, 126, 127
_MAX_RECEIVED = 4
_MAX_DESCRIPTORS = 1 << 20
_PID, _ERROR = b"p", b"e"
_CHUNK = 64 * 1024


class StartFailed(Exception):
    """The program never ran; `code` is the exit code that a shell would use."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Program(NamedTuple):
    """`prepare` runs in the child before the program is looked up; the descriptors that it returns
    are sent to the parent."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    tty: bool
    """Whether standard input is a terminal that the program controls."""
    prepare: Callable[[], list[int]]
    pid_namespace: int = -1
    """The descriptor of the one to run in, if it is not ours."""


def start(
    program: Program, stdio: tuple[int, int, int], admit: Callable[[int], None] | None = None
) -> tuple[int, list[int]]:
    """Start the program with these descriptors in its own session; returns its PID and the
    descriptors of `prepare`. `admit` gets the PID before the program runs."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    first = os.fork()
    if first == 0:
        ours.close()
        _run(program, stdio, theirs, admitted=admit is not None)
    theirs.close()
    pid, error, descriptors = 0, b"", list[int]()
    with ours:
        while True:
            data, fds, _, _ = socket.recv_fds(ours, 4096, _MAX_RECEIVED)
            descriptors += fds
            if data[:1] == _PID and not pid:
                pid = int(data[1:])
                if admit is not None:
                    with contextlib.suppress(OSError):  # it was killed
                        admit(pid)
                        ours.send(_PID)
            elif data[:1] == _ERROR:
                error = data[1:]
            elif not data:
                break
    for fd in descriptors:
        os.set_inheritable(fd, False)
    # Without a message, the kernel killed the first process at its memory limit.
    if pid not in (0, first):
        os.waitpid(first, 0)
    if error:
        code, _ = exit_code(os.waitpid(pid or first, 0)[1])
        message = error.decode(errors="replace")
        raise StartFailed(f'cannot run "{program.argv[0]}": {message}', code)
    return pid or first, descriptors


def _run(
    program: Program, stdio: tuple[int, int, int], parent: socket.socket, *, admitted: bool
) -> NoReturn:
    """What the child does: it becomes the program, or sends why not."""
    code = _CANNOT_RUN
    try:
        _prepare(program, stdio, parent)
        if program.pid_namespace >= 0:
            kernel.enter({"pid": program.pid_namespace})
            os.closerange(3, parent.fileno())  # all but this one
            os.closerange(parent.fileno() + 1, _MAX_DESCRIPTORS)
            pid = kernel.fork_sibling()
        else:
            pid = os.getpid()
        if pid:
            parent.send(_PID + str(pid).encode())
        if pid == 0 or program.pid_namespace < 0:
            _become(program, parent, admitted=admitted)
        code = 0
    except OSError as error:
        not_found = isinstance(error, FileNotFoundError)
        code = _NOT_FOUND if not_found else _NO_SPACE if is_full_disk(error) else _CANNOT_RUN
        parent.send(_ERROR + _text(error, program.argv[0]))
    except ValueError as error:
        parent.send(_ERROR + str(error).encode())
    finally:
        os._exit(code)


def is_full_disk(error: StartFailed | OSError) -> bool:
    """Whether the program did not run for lack of space: another attempt may succeed."""
    if isinstance(error, StartFailed):
        return error.code == _NO_SPACE
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _text(error: OSError, program: str) -> bytes:
    path = os.fsdecode(error.filename or "")
    is_program = os.path.basename(path) in ("", os.path.basename(program))  # searched in PATH
    suffix = "" if is_program else f": {path}"
    return f"{error.strerror}{suffix}".encode()


def _prepare(program: Program, stdio: tuple[int, int, int], parent: socket.socket) -> None:
    os.umask(0o022)  # ours makes private files; the program and its root directory get the usual
    for number, fd in enumerate(stdio):
        os.dup2(fd, number)
    descriptors = program.prepare()
    if descriptors:
        socket.send_fds(parent, [b"\n"], descriptors)
    os.makedirs(program.cwd, exist_ok=True)
    os.chdir(program.cwd)
    for number in range(1, signal.NSIG):  # ignored signals would stay ignored after exec
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)


def _become(program: Program, parent: socket.socket, *, admitted: bool) -> NoReturn:
    kernel.die_with_parent(signal.SIGKILL)
    os.setsid()  # it can then have its own controlling terminal
    if program.tty:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # standard input is our terminal
    if admitted and not parent.recv(1):
        os._exit(_CANNOT_RUN)
    os.execvpe(program.argv[0], program.argv, program.env)


def read_output(fd: int) -> bytes | None:
    """The program's next output; empty at its end, None if there is none yet."""
    try:
        return os.read(fd, 64 * 1024)
    except BlockingIOError:
        return None
    except OSError:  # no process uses the terminal any more
        return b""


def resize(terminal: int, size: dict[str, int]) -> None:
    """Set the window size of a terminal."""
    packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
    with contextlib.suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, packed)


def exit_code(status: int) -> tuple[int, int]:
    """Exit code and signal of a wait status; a signal counts as 128 plus its number."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status), os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


class StdinWriter:
    """A program's standard input: buffers input in order and writes it as the program reads.

    Neither attach nor exec may wait for a program. The caller bounds the buffer: while input is
    `pending`, the caller reads no more from its clients; `drained` is called when the buffer is
    empty again. Closing waits until the input before it is written.

    It takes ownership of `fd` if it is a pipe. A terminal has other readers too, so it stays open
    when a client closes its input.
    """

    def __init__(
        self,
        fd: int,
        select: selectors.BaseSelector,
        drained: Callable[[], None],
        *,
        terminal: bool = False,
    ) -> None:
        self.fd = os.dup(fd) if terminal else fd
        os.set_blocking(self.fd, False)
        self._select = select
        self._drained = drained
        self._terminal = terminal
        self._buffer = bytearray()
        self._closing = False

    @property
    def pending(self) -> bool:
        """Whether the buffer has input that the program has not read."""
        return bool(self._buffer)

    def write(self, data: bytes) -> None:
        """Write or buffer the data; dropped if the program has closed its input."""
        if self.fd >= 0 and not self._closing:
            waiting = self.pending
            self._buffer += data
            if not waiting:  # else the selector calls `_push` when the program reads
                self._push()

    def close_when_written(self) -> None:
        """Close the program's input after the buffered data."""
        self._closing = not self._terminal
        if self._closing and not self._buffer:
            self._close()

    def _push(self, *_: Any) -> None:
        waited = self.fd in self._select.get_map()
        try:
            while self._buffer:
                del self._buffer[: os.write(self.fd, self._buffer[:_CHUNK])]
        except BlockingIOError:
            if not waited:
                self._select.register(self.fd, selectors.EVENT_WRITE, self._push)
            return
        except OSError:  # the program closed its standard input
            self._buffer.clear()
            self._closing = True
        if waited:
            self._select.unregister(self.fd)
        if self._closing:
            self._close()
        if waited:
            self._drained()

    def _close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def open_groups(limits: dict[str, Any]) -> list[int]:
    """Descriptors for `admit_to_groups`, opened while the groups are still visible."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    return [os.open(f"{group}/cgroup.procs", flags) for group in limits.get("groups", ())]


def admit_to_groups(procs: list[int], pid: int) -> None:
    """Put a process, and so its children, into the groups; 0 is this process."""
    for fd in procs:
        os.write(fd, str(pid).encode())
        os.close(fd)


def killed_for_memory(limits: dict[str, Any]) -> bool:
    """Whether the kernel killed a process of the group for lack of memory."""
    if not limits.get("events"):
        return False
    with contextlib.suppress(OSError):
        for line in files.read(limits["events"]).splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and int(count):
                return True
    return False


def remove_groups(limits: dict[str, Any]) -> None:
    """Remove the groups; if a process is still in one, the daemon removes it later."""
    for group in limits.get("groups", ()):
        with contextlib.suppress(OSError):
            os.rmdir(group)
