"""`make demo` runs to its end and leaves nothing behind, as root and as another user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import EXAMPLES
from tests.examples.training import PYTHON, mpirun, need

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
    assert "short 2 nvidia.com/gpu" in story
    assert len(re.findall(r"mpi-dist-(?:worker|launcher)-\w+ +Running", story)) == 5
    assert "rank 7 of 8 on mpi-dist-worker-3" in story
    assert len(re.findall(r"^trained: loss", story, re.MULTILINE)) == 2
    assert "Its room was kept" in story
    last = story.rpartition("$ arena list")[2]
    assert re.findall(r"^(rival|tf-dist) +SUCCEEDED", last, re.MULTILINE) == ["rival", "tf-dist"]
    assert "(100.0%)" in story
    assert list(tmp_path.iterdir()) == []
    (home,) = re.findall(r"GPUs each, in (\S+)$", story, re.MULTILINE)
    assert Footprint.now().beyond(before, Path(home)) == []
