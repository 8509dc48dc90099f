"""Starting one program as a direct child, after making itself at home somewhere else.

Called by `shim` for a container's process and by `session` for exec. `StartFailed` carries the
sentence that the pod's status will show; a program that was started never raises it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
import termios
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable


_CANNOT_RUN, _NOT_FOUND = 126, 127
_MOST_GIVEN = 4


class StartFailed(Exception):
    """The program never ran; the text says why, and the code says it as a shell would."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Program(NamedTuple):
    """What to run.

    `at_home` runs in the child before anything of `env` or `cwd` is looked up; the descriptors it
    returns are handed to the parent.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str
    tty: bool
    at_home: Callable[[], list[int]]


def start(program: Program, stdio: tuple[int, int, int]) -> tuple[int, list[int]]:
    """The PID of the program, running with those descriptors in a session of its own, and the
    descriptors that `at_home` gave."""
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
            theirs.sendall(_text(error, program.argv[0]))
        except ValueError as error:
            theirs.sendall(str(error).encode())
        finally:
            os._exit(code)
    theirs.close()
    with ours:
        trouble, given = _hear(ours)
    if trouble:
        code, _ = exit_code(os.waitpid(pid, 0)[1])
        raise StartFailed(f'cannot run "{program.argv[0]}": {trouble}', code)
    return pid, given


def _text(error: OSError, program: str) -> bytes:
    path = os.fsdecode(error.filename or "")
    known = os.path.basename(path) in ("", os.path.basename(program))  # where PATH ended
    where = "" if known else f": {path}"
    return f"{error.strerror}{where}".encode()


def _hear(child: socket.socket) -> tuple[str, list[int]]:
    """What the child says until it becomes the program: its trouble, and the descriptors."""
    said, given = b"", list[int]()
    while True:
        data, fds, _, _ = socket.recv_fds(child, 4096, _MOST_GIVEN)
        for fd in fds:
            given.append(fd)
            os.set_inheritable(fd, False)
        if not data:
            return said.strip(b"\n").decode(errors="replace"), given
        said += data


def _become(program: Program, stdio: tuple[int, int, int], parent: socket.socket) -> NoReturn:
    os.setsid()
    for wanted, fd in enumerate(stdio):
        os.dup2(fd, wanted)
    if program.tty:
        take_terminal()
    given = program.at_home()
    if given:
        socket.send_fds(parent, [b"\n"], given)
    os.makedirs(program.cwd, exist_ok=True)
    os.chdir(program.cwd)
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    os.execvpe(program.argv[0], program.argv, program.env)


def take_terminal() -> None:
    """Make standard input, a terminal, the one of our session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def resize(terminal: int, rows: int, columns: int) -> None:
    """Tell the programs on a terminal that its window changed."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def exit_code(status: int) -> tuple[int, int]:
    """Exit code and signal of a wait status; a signal counts as 128 plus its number."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status), os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0
