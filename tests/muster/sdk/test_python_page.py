"""docs/python.md: every program on the page runs as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import muster
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TRAIN = """
import sys
rate = float(sys.argv[1].partition("=")[2]) if len(sys.argv) > 1 else 0.01
if rate > 2:
    sys.exit("diverged")
for step in range(3):
    print(f"step={step} loss={abs(rate - 0.1) + 1 / (step + 1):.3f}")
"""
OUTPUT = {
    "torchrun": r"(step=\d loss=\S+\n)+",
    "rates =": r"2\.\d+: sweep-19-master-0 ended with 1: diverged\n"
    r"best learning rate: 0\.0\d+ with loss 0\.3\d*\n",
    "broken": r"broken-master-0 3\n\('reading data', 'no such file: train.csv'\)\n",
    "asyncio": r"\[\['model 0'\], .*\['model 9'\]\]\n",
    "subprocess": r"https://127.0.0.1:\d+ \S+/kubeconfig\nNAME .*\ngang .*\n",
    "test_training": r".*1 passed.*",
}
"""A word of each program, and what it prints."""


def test_the_page_has_every_name_and_every_method() -> None:
    methods = {*vars(muster.Job), *vars(muster.LocalCluster)} - {"of_summary"}
    names = {name for name in (*muster.__all__, *methods) if not name.startswith("_")}

    assert {name for name in names if not re.search(rf"\b{name}\b", PAGE)} == set()


@pytest.fixture
def project(cluster: muster.LocalCluster, tmp_path: Path) -> Path:
    """A directory with a training script and a torchrun that runs it."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "bin").mkdir()
    for name in ("torchrun", "python"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        program.chmod(0o755)
    (tmp_path / "bin" / "arena").symlink_to(Path(sys.executable).parent / "arena")
    return tmp_path


@pytest.mark.parametrize("word", OUTPUT)
def test_the_program_runs_as_it_is_written(
    word: str, cluster: muster.LocalCluster, project: Path
) -> None:
    (text,) = [text for text in PROGRAMS if word in text]
    is_test = text.startswith("# test_training.py")
    file = project / ("test_training.py" if is_test else "program.py")
    file.write_text(text)

    try:
        ran = subprocess.run(
            [sys.executable, *(["-m", "pytest", "-q"] if is_test else []), file],
            cwd=project,
            env={
                **os.environ,
                **cluster.environment,
                "PATH": f"{project}/bin:{os.environ['PATH']}",
                "PWD": str(project),
            },
            capture_output=True,
            text=True,
            timeout=200,
        )
    finally:
        for job in cluster.list_jobs():
            job.delete()

    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(OUTPUT[word], ran.stdout, re.DOTALL), ran.stdout + ran.stderr


def test_no_program_on_the_page_is_left_out() -> None:
    assert len(PROGRAMS) == len(OUTPUT)


def test_the_readme_begins_with_the_same_program() -> None:
    assert f"```python\n{PROGRAMS[0]}" in (ROOT / "README.md").read_text()


def test_the_sweep_has_less_than_thirty_lines() -> None:
    (sweep,) = [text for text in PROGRAMS if "rates =" in text]

    assert len(sweep.splitlines()) < 30
