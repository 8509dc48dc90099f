"""Starts a program as a direct child, after preparing the child (namespaces, root directory).

The child keeps one end of a socket pair that exec closes. If the parent reads end of file without a
message, the program runs; otherwise the message says why not, and becomes `StartFailed`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import struct
import termios
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable


_NO_SPACE, _CANNOT_RUN, _NOT_FOUND = 125, 126, 127
_MAX_DESCRIPTORS = 4


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
    prepare: Callable[[], list[int]]


def start(program: Program, stdio: tuple[int, int, int]) -> tuple[int, list[int]]:
    """Start the program with these descriptors in a session of its own; returns its PID and the
    descriptors of `prepare`."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        code = _CANNOT_RUN
        try:
            _become(program, stdio, theirs)
        except FileNotFoundError as error:
            code = _NOT_FOUND
            theirs.sendall(_text(error, program.argv[0]))
        except OSError as error:
            code = _NO_SPACE if is_full_disk(error) else _CANNOT_RUN
            theirs.sendall(_text(error, program.argv[0]))
        except ValueError as error:
            theirs.sendall(str(error).encode())
        finally:
            os._exit(code)
    theirs.close()
    with ours:
        message, descriptors = _receive(ours)
    if message:
        code, _ = exit_code(os.waitpid(pid, 0)[1])
        raise StartFailed(f'cannot run "{program.argv[0]}": {message}', code)
    return pid, descriptors


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


def _receive(child: socket.socket) -> tuple[str, list[int]]:
    """The child's error message, if any, and descriptors, until it becomes the program."""
    # Descriptors come with a newline, because a message cannot be empty; `strip` removes it.
    message, descriptors = b"", list[int]()
    while True:
        data, fds, _, _ = socket.recv_fds(child, 4096, _MAX_DESCRIPTORS)
        for fd in fds:
            descriptors.append(fd)
            os.set_inheritable(fd, False)
        if not data:
            return message.strip(b"\n").decode(errors="replace"), descriptors
        message += data


def _become(program: Program, stdio: tuple[int, int, int], parent: socket.socket) -> NoReturn:
    os.setsid()  # it can then have a controlling terminal of its own
    os.umask(0o022)  # ours makes private files; the program and its root directory get the usual
    for number, fd in enumerate(stdio):
        os.dup2(fd, number)
    if program.tty:
        take_terminal()
    descriptors = program.prepare()
    if descriptors:
        socket.send_fds(parent, [b"\n"], descriptors)
    os.makedirs(program.cwd, exist_ok=True)
    os.chdir(program.cwd)
    for number in range(1, signal.NSIG):  # ignored signals would stay ignored after exec
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    os.execvpe(program.argv[0], program.argv, program.env)


def take_terminal() -> None:
    """Make standard input, a terminal, the controlling terminal of our session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_output(fd: int) -> bytes | None:
    """The program's next output; empty at its end, None if there is none yet."""
    try:
        return os.read(fd, 64 * 1024)
    except BlockingIOError:
        return None
    except OSError:  # no process uses the terminal any more
        return b""


def resize(terminal: int, rows: int, columns: int) -> None:
    """Set the window size of a terminal."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def exit_code(status: int) -> tuple[int, int]:
    """Exit code and signal of a wait status; a signal counts as 128 plus its number."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status), os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0
