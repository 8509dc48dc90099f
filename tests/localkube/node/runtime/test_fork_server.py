"""Programs of pods are forked by a process that has imported them."""

from __future__ import annotations

import errno
import os
import signal
import socket
from pathlib import Path

import pytest

from localkube.node.runtime import processes
from localkube.node.standalone.linux import kernel


def start_pause(errors: Path) -> tuple[int, socket.socket]:
    """A `pause` program that waits for its first request; the end of the connection ends it."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            pid = processes.fork_program("pause", [str(errors)], {0: theirs.fileno()}, errors)
        except OSError:
            ours.close()
            raise
    return pid, ours


def command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def server_pid() -> int:
    return processes._fork_server._pid


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_program_is_our_child_with_a_command_line_and_a_session_of_its_own(
    tmp_path: Path,
) -> None:
    pid, connection = start_pause(tmp_path / "errors")
    with connection:
        # The command line is set when the program has passed its gate.
        while str(tmp_path / "errors") not in command_line(pid):
            assert kernel.start_time(pid) is not None
        assert any("import pause" in word for word in command_line(pid))
        assert os.getsid(pid) == pid
        assert sorted(os.listdir(f"/proc/{pid}/fd"))[:3] == ["0", "1", "2"]

    assert exit_code(pid) == 1  # the daemon is gone
    assert (tmp_path / "errors").read_text() == ""


def test_a_killed_fork_server_is_started_again(tmp_path: Path) -> None:
    pid, connection = start_pause(tmp_path / "errors")
    connection.close()
    exit_code(pid)
    killed = server_pid()
    os.kill(killed, signal.SIGKILL)

    pid, connection = start_pause(tmp_path / "errors")

    connection.close()
    assert exit_code(pid) == 1
    assert server_pid() != killed


def test_a_machine_that_forbids_to_fork_siblings_starts_the_program_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(processes._fork_server, "fork", forbidden)

    pid, connection = start_pause(tmp_path / "errors")

    connection.close()
    assert exit_code(pid) == 1


def test_a_fork_server_that_exits_at_once_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_dead(self: processes._ForkServer) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.close()
        started.append(ours)
        return ours

    started: list[socket.socket] = []
    monkeypatch.setattr(processes, "_fork_server", processes._ForkServer())
    monkeypatch.setattr(processes._ForkServer, "_start", start_dead)

    pid, connection = start_pause(tmp_path / "errors")

    connection.close()
    assert exit_code(pid) == 1
    assert len(started) == 1
    started[0].close()


def test_an_error_file_that_cannot_be_made_starts_no_program(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        start_pause(tmp_path / "missing" / "errors")


def test_a_program_whose_pid_the_daemon_does_not_learn_never_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(pid: int) -> None:
        pids.append(pid)
        raise KeyboardInterrupt

    pids: list[int] = []
    monkeypatch.setattr(processes, "_restore_user_limit", lost)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(KeyboardInterrupt):
        processes._fork_server.fork("pause", [], [theirs.fileno()] * 3)

    assert exit_code(pids[-1]) == 1
