"""Ctrl-C and a closed terminal: a command says in one sentence what goes on, and ends with 130."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.local.home import Home
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


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.parametrize(
    "words",
    [("up",), ("up", "--detach"), (*SUBMIT, "true")],
    ids=["foreground", "detach", "submit"],
)
def test_an_interrupted_start_leaves_no_cluster(tmp_path: Path, words: tuple[str, ...]) -> None:
    local, before, home = LocalCluster(tmp_path), Footprint.now(), Home(tmp_path)
    command = start(local, *words)
    until(lambda: home.running(), every=0.005, what="the daemon holds its lock")
    command.send_signal(signal.SIGINT)

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
    until(lambda: Home(local.home).status(), what="the cluster is ready")
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
    assert submit.stderr is not None
    assert any("j RUNNING" in line for line in iter(submit.stderr.readline, ""))
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
