"""docs/python-functions.md: its program runs as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import muster
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "python-functions.md").read_text()


@pytest.mark.slow
def test_the_program_runs_as_it_is_written(cluster: muster.LocalCluster, tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "program.py").write_text(program)

    ran = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, **cluster.environment, "PWD": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert ran.stdout == "{'loss': 0.125}\n", ran.stderr
