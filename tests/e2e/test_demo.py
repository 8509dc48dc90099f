"""`make demo` runs to its end or to Ctrl-C, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.jobs import job_sentences
from muster.jobs.job_status import ReplicaFailures
from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import EXAMPLES
from tests.examples.training import PYTHON, mpirun, need
from tests.muster.words import short

pytestmark = pytest.mark.slow
TWO_MINUTES = 120


def test_the_demo_shows_gangs_that_wait_train_and_keep_their_room(tmp_path: Path) -> None:
    need("mpirun", "mpi4py", "numpy")
    mpirun()
    before = Footprint.now()

    result = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=EXAMPLES.parent,
        env={**os.environ, "TMPDIR": str(tmp_path), "MUSTER_TRAINING_PYTHON": PYTHON},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TWO_MINUTES,
        check=False,
    )

    story = result.stdout
    assert result.returncode == 0, story
    assert len(re.findall(r"mpi-dist-worker-\d +Pending", story)) == 5
    assert short(2) in story
    assert len(re.findall(r"mpi-dist-(?:worker|launcher)-\w+ +Running", story)) == 5
    assert "rank 7 of 8 on mpi-dist-worker-3" in story
    assert len(re.findall(r"^trained: loss", story, re.MULTILINE)) == 2
    assert "$ arena attach ddp -i ddp-worker-0 'kill -9 " in story
    once = ReplicaFailures(1, datetime.now(UTC))
    assert job_sentences.failed_of_late("worker 0", once) in story
    assert "Its room was kept" in story
    last = story.rpartition("$ arena list")[2]
    assert sorted(re.findall(r"^(rival|ddp) +SUCCEEDED", last, re.MULTILINE)) == ["ddp", "rival"]
    assert "(100.0%)" in story
    assert list(tmp_path.iterdir()) == []
    assert "\x1b" not in story
    # The command works in every directory.
    arena = Path(sys.executable).with_name("arena")
    line = f'$ {arena} submit tf --name=mine --workers=2 "python train.py"'
    assert story.splitlines()[-1].endswith(line)
    (home,) = re.findall(r"GPUs each, in (\S+) ", story)
    assert Footprint.now().beyond(before, Path(home)) == []


def test_ctrl_c_ends_the_demo_and_removes_its_cluster(tmp_path: Path) -> None:
    before = Footprint.now()
    with subprocess.Popen(
        [sys.executable, "-m", "examples.demo"],
        cwd=EXAMPLES.parent,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as demo:
        assert demo.stdout is not None
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if line.startswith("local cluster is up"):
                os.killpg(demo.pid, signal.SIGINT)  # as a terminal sends it, to every program
        code = demo.wait(TWO_MINUTES)

    story = "".join(lines)
    assert code == 130, story
    assert story.endswith("The demo ended early: interrupted\n")
    assert "Traceback" not in story
    assert list(tmp_path.iterdir()) == []
    (home,) = re.findall(r"GPUs each, in (\S+) ", story)
    assert Footprint.now().beyond(before, Path(home)) == []


def test_a_failed_step_is_one_sentence_with_the_place_of_the_log(tmp_path: Path) -> None:
    program = "from pathlib import Path; from examples import demo; demo.ARENA = Path('/bin/false')"

    result = subprocess.run(
        [sys.executable, "-c", f"{program}; raise SystemExit(demo.main())"],
        cwd=EXAMPLES.parent,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TWO_MINUTES,
        check=False,
    )

    assert result.returncode == 1
    (log,) = tmp_path.iterdir()
    assert result.stderr == (
        "The demo ended early: `arena up --detach --nodes=4 --gpus-per-node=2` failed with exit "
        f"code 1; the cluster's log is {log}\n"
    )
