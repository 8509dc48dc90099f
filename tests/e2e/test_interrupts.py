"""Ctrl-C and a closed terminal: a command says in one sentence what goes on, and ends with 130."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from localkube.cluster import PORT_FILE
from muster.client.home import Home
from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import ARENA, LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow

SUBMIT = ("submit", "tf", "--name=j", "--image=i")


def start(local: LocalCluster, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [ARENA, *words],
        env=local.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Read the lines on stderr up to the one with the text, without a guess at its time."""
    assert process.stderr is not None
    assert any(text in line for line in iter(process.stderr.readline, "")), f"no line: {text}"


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=60)
    return process.returncode, err


class Gate:
    """Holds a starting cluster after it has taken its lock: the file of its port is a named pipe.

    The daemon reads the port before it listens, and the read waits for a writer. So the cluster
    cannot become ready before the test has sent its signal, however slow the machine is.
    """

    def __init__(self, data: Path) -> None:
        data.mkdir(mode=0o700)
        self._pipe = data / PORT_FILE
        os.mkfifo(self._pipe)
        self._writer = 0

    def reached(self) -> bool:
        """Whether the daemon waits here."""
        try:
            self._writer = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # no reader yet
            return False
        return True

    def open(self) -> None:
        self._pipe.unlink()  # the daemon then writes its port to a file
        os.write(self._writer, b"0")
        os.close(self._writer)


@pytest.mark.parametrize(
    "words",
    [("up",), ("up", "--detach"), (*SUBMIT, "true")],
    ids=["foreground", "detach", "submit"],
)
def test_an_interrupted_start_leaves_no_cluster(tmp_path: Path, words: tuple[str, ...]) -> None:
    local, before, home = LocalCluster(tmp_path), Footprint.now(), Home(tmp_path)
    gate = Gate(home.data)
    command = start(local, *words)
    until(gate.reached, timeout=60, what="the daemon has its lock and reads its port")
    assert home.running() is not None
    command.send_signal(signal.SIGINT)
    if words != ("up",):
        read_until(command, "stopping the local cluster again")
    gate.open()

    code, err = end(command)

    assert code == 130
    assert err.splitlines()[-1] == "interrupted: the local cluster was not started"
    assert home.running() is None
    assert not home.was_killed()
    assert Footprint.now().beyond(before, tmp_path) == []


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in the foreground, with a job; its terminal is closed at the end."""
    local, before = LocalCluster(tmp_path_factory.mktemp("home")), Footprint.now()
    up = start(local, "up")
    read_until(up, "local cluster is ready")
    yield local
    up.send_signal(signal.SIGHUP)
    code, err = end(up)
    assert code == 0
    assert err.splitlines()[-1].startswith("local cluster is down")
    assert "the cluster has no" not in err  # every component knows which kinds are served
    assert "no local cluster was up\n" in local.arena("down").stderr
    assert Footprint.now().beyond(before, local.home) == []


def test_an_interrupted_command_leaves_the_job_running_and_says_so(local: LocalCluster) -> None:
    train = ("python3", "-uc", "import signal; print('a  b'); signal.pause()")
    submit = start(local, *SUBMIT, "--wait", *train)
    read_until(submit, "j RUNNING")
    follow = start(local, "logs", "-f", "j")
    assert follow.stdout is not None
    assert follow.stdout.readline() == "a  b\n"  # each word of the command is one argument

    for process in (submit, follow):
        process.send_signal(signal.SIGINT)

    assert end(submit) == (
        130, "no longer waiting; the job j (`arena logs -f j` follows it) continues\n",
    )  # fmt: skip
    assert end(follow) == (130, "no longer following; the job continues\n")
    assert local.job("j")["status"] == "RUNNING"


def test_a_cluster_whose_log_cannot_be_written_stays_up(tmp_path: Path) -> None:
    local = LocalCluster(tmp_path / "home")
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(
            [ARENA, "up"], env=local.env, stdin=subprocess.DEVNULL, stdout=full, stderr=full
        )
    until(lambda: Home(local.home).status(), what="the cluster is ready")

    local.arena("list")
    assert process.poll() is None
    local.down()
    process.wait(60)
