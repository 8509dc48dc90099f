"""The README's console blocks: every `arena` line is understood, and the first job runs as written.

tests/test_readme_debian.py follows the same lines on a fresh Debian.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import own_network
from tests.docs import command_lines
from tests.repository import ROOT


def blocks() -> list[list[str]]:
    """The commands of each console block."""
    found = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [[line[2:] for line in block.splitlines() if line.startswith("$ ")] for block in found]


def setup() -> tuple[str, list[str]]:
    """The line that installs Debian's packages, and the lines that install Muster."""
    packages, install, *_ = blocks()
    assert [line.split()[:2] for line in packages] == [["sudo", "apt-get"]]
    assert any("pip install" in line for line in install)
    return packages[0], install


def first_job() -> list[str]:
    lines = blocks()[2]
    assert lines[0].startswith("arena submit")
    assert lines[-1] == "arena down"
    return lines


def commands() -> list[str]:
    """Every call of `arena` and `muster` in the README, in blocks and in sentences."""
    text = (ROOT / "README.md").read_text()
    inline = re.findall(r"(?<!`)`((?:arena|muster) [^`]+)`(?!`)", text)
    # A pipe's second half is kubectl's; NAME and FILE are arguments like others.
    lines = [line for block in blocks() for line in block]
    return [line.partition(" |")[0] for line in (*lines, *inline) if re.match("arena|muster", line)]


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_every_arena_command_of_the_readme_is_understood(line: str) -> None:
    command_lines.check(line)


@pytest.mark.slow
@pytest.mark.timeout(900)  # It installs the package and its dependencies.
def test_the_first_job_of_the_readme_runs_in_an_empty_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    path = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"
    env = {"HOME": str(home), "PATH": path}
    # The way to the package registry is the machine's, not the user's.
    env |= {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_"))}
    _, install = setup()

    script = "\n".join(["set -ex", *install, "trap 'arena down' EXIT", *first_job()])
    result = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=800, check=False,
        preexec_fn=own_network.leave,
    )  # fmt: skip

    assert result.returncode == 0, f"{result.stdout}{result.stderr}"
    assert "trained: loss" in result.stdout
