"""A script that handles SIGTERM can save its state, however its job or cluster is stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow

SCRIPT = """
import pathlib, signal, sys, time

def save(*_):
    time.sleep(1.5)  # pace: a checkpoint that takes longer than `down` is silent
    pathlib.Path(sys.argv[1] + ".saved").touch()
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
pathlib.Path(sys.argv[1] + ".ready").touch()
while True:
    signal.pause()
"""
# The shell runs the second one as a child; the first one takes the shell's place.
COMMANDS = {"simple": "python term.py simple", "line": "cd . && python term.py line"}


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "home")
    cluster.up()
    yield cluster
    cluster.arena("down", "--now")


def test_a_script_saves_its_state_when_its_job_or_its_cluster_is_stopped(
    local: LocalCluster, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "term.py").write_text(SCRIPT)

    def files(suffix: str) -> set[str]:
        return {file.stem for file in project.glob(f"*.{suffix}")}

    def submit(name: str) -> None:
        local.arena("submit", "tf", f"--name={name}", "--workers=1", COMMANDS[name], cwd=project)

    def wait_until_ready() -> None:
        until(lambda: files("ready") == {"simple", "line"}, what="both handlers", timeout=30)
        for file in (*project.glob("*.ready"), *project.glob("*.saved")):
            file.unlink()

    submit("simple")
    submit("line")
    wait_until_ready()
    local.arena("suspend", "simple")
    local.arena("delete", "line")
    until(lambda: files("saved") == {"simple", "line"}, what="both saved")

    local.arena("resume", "simple")
    local.arena("wait", "line", "--for", "deleted", "--timeout", "30s")
    submit("line")
    wait_until_ready()
    output = local.arena("down").stderr
    assert files("saved") == {"simple", "line"}
    assert "waiting for line-chief-0 and 1 more pod to end (grace period: 30 s) …\n" in output

    local.up()
    wait_until_ready()
    events = local.arena("get", "simple", "--events").stdout
    cause = "simple-chief-0 .*muster-0: The local cluster was stopped while the pod ran\\.\n"
    assert re.search(cause, events)
    output = local.arena("down", "--now").stderr
    assert files("saved") == set()
    assert "waiting" not in output
