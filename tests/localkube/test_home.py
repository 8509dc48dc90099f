"""The lock of a local cluster's home: readers block nobody."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.errors import UsageError
from muster.client.home import Home
from tests.waiting import until


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose last daemon was killed: its PID is still in the file."""
    (tmp_path / "daemon.lock").write_text("4242")
    return Home(tmp_path)


def test_a_reader_does_not_take_another_reader_for_a_daemon(home: Home) -> None:
    with home.lock.open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_SH)

        assert home.running() is None
        assert home.was_killed()


def test_a_daemon_waits_for_a_reader(home: Home) -> None:
    started, stop = threading.Event(), threading.Event()

    def serve() -> None:
        with home.held():
            started.set()
            stop.wait()

    daemon = threading.Thread(target=serve)
    with home.lock.open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        daemon.start()
        assert not started.wait(0.1)
    try:
        until(started.is_set, what="the daemon holds the lock")
        assert home.running()
    finally:
        stop.set()
        daemon.join()
    assert home.running() is None


def test_a_constant_reader_does_not_keep_a_daemon_from_starting(home: Home) -> None:
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            home.running()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(20):
            with home.held():
                assert home.running()
    finally:
        stop.set()
        reader.join()


def test_a_second_daemon_is_refused_at_once(home: Home) -> None:
    with home.held(), pytest.raises(UsageError, match="already up"), home.held():
        pass


DYING = """
import ctypes, os, platform, sys, threading
from pathlib import Path
from muster.client.home import Home
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
        until(lambda: ") Z " in stat.read_text(), what="the exit of its first thread")
        yield process
        process.kill()


def test_a_killed_daemon_is_not_running_although_a_thread_still_holds_its_lock(
    home: Home, dying: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dying.stdin is not None
    release = dying.stdin.close
    monkeypatch.setattr("muster.client.home.time.sleep", lambda _: release())

    assert home.running() is None
    with home.held():
        assert home.running()
