"""The lock of a local cluster's home: who only looks is in nobody's way."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.errors import UsageError
from muster.local.home import Home
from tests.waiting import until


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose last daemon was killed: its number is still there."""
    (tmp_path / "daemon.lock").write_text("4242")
    return Home(tmp_path)


def test_of_two_who_look_at_once_neither_takes_the_other_for_a_daemon(home: Home) -> None:
    with home.lock.open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_SH)

        assert home.running() is None
        assert home.was_killed()


def test_a_daemon_waits_for_one_who_is_looking(home: Home) -> None:
    begun, over = threading.Event(), threading.Event()

    def serve() -> None:
        with home.held():
            begun.set()
            over.wait()

    daemon = threading.Thread(target=serve)
    with home.lock.open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        daemon.start()
        assert not begun.wait(0.1)
    try:
        until(begun.is_set, what="the daemon has the home")
        assert home.running()
    finally:
        over.set()
        daemon.join()
    assert home.running() is None


def test_a_constant_reader_does_not_keep_a_daemon_from_starting(home: Home) -> None:
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            home.running()

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(20):
            with home.held():
                assert home.running()
    finally:
        over.set()
        looker.join()


def test_a_second_daemon_is_refused_at_once(home: Home) -> None:
    with home.held(), pytest.raises(UsageError, match="already up"), home.held():
        pass


DYING = """
import ctypes, os, platform, sys, threading
from pathlib import Path
from muster.local.home import Home
def linger():
    sys.stdin.read()
    os._exit(0)
with Home(Path(sys.argv[1])).held():
    threading.Thread(target=linger).start()
    print("held", flush=True)
    only_this_thread = {"x86_64": 60}.get(platform.machine(), 93)
    ctypes.CDLL(None).syscall(only_this_thread, 0)
"""


@pytest.fixture
def dying(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon whose first thread has ended while another still holds its files."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", DYING, str(home.root)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        stat = Path(f"/proc/{process.pid}/stat")
        until(lambda: ") Z " in stat.read_text(), what="the end of its first thread")
        yield process
        process.kill()


def test_a_killed_daemon_is_not_running_though_its_lock_is_held_a_bit_longer(
    home: Home, dying: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dying.stdin is not None
    let_go = dying.stdin.close
    monkeypatch.setattr("muster.local.home.time.sleep", lambda _: let_go())

    assert home.running() is None
    with home.held():
        assert home.running()
