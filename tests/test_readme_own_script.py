"""The README's three lines for one's own script, with the training examples as the scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.training import PYTHON, mpirun, need
from tests.prerequisites import missing_prerequisite
from tests.repository import ROOT
from tests.test_readme import blocks

pytestmark = pytest.mark.long
KINDS = {
    "tf": "tf_multiworker.py",
    "pytorch": "torch_ddp.py",
    "jax": "jax_dp.py",
    "mpi": "mpi_allreduce.py",
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The directory of a user's project; the cluster that `submit` starts is stopped."""
    folder = tmp_path / "project"
    folder.mkdir()
    yield folder
    subprocess.run([Path(sys.executable).with_name("arena"), "down"], check=True)


def lines(kind: str) -> list[str]:
    """The block for this kind, without the line that installs the framework."""
    install, *rest = next(b for b in blocks() if any(f"arena submit {kind} " in x for x in b[1:]))
    assert install.startswith("pip install")
    assert len(rest) == 2
    return rest


@pytest.mark.parametrize("kind", KINDS)
def test_ones_own_script_trains_in_three_lines(kind: str, project: Path) -> None:
    need("tensorflow", "tensorflow", "jax", "numpy")
    mpirun()
    if kind == "pytorch" and shutil.which("torchrun") is None:
        missing_prerequisite("torchrun", "no torchrun on the PATH (apt-get install python3-torch)")
    shutil.copy(ROOT / "examples" / KINDS[kind], project / "train.py")
    shutil.copy(ROOT / "examples" / "events.py", project)
    arena = f"{Path(sys.executable).parent / 'arena'}"
    environment = Path(PYTHON).parent
    env = {**os.environ, "PATH": f"{environment}:{os.environ['PATH']}"}
    script = "\n".join(["set -e", f'arena() {{ {arena} "$@"; }}', *lines(kind)])
    if kind == "pytorch":  # see tests/e2e/test_training.py
        script = script.replace("torchrun ", "torchrun --redirects 1 --tee 1 ")

    result = subprocess.run(
        ["bash", "-c", script],
        cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    assert "trained: loss" in result.stdout, result.stderr
