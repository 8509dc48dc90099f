"""The lock of a local cluster's home: who only looks is in nobody's way."""

from __future__ import annotations

import fcntl
import threading
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


def test_one_who_looks_all_the_time_keeps_no_daemon_from_starting(home: Home) -> None:
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
