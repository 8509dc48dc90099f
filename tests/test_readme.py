"""The README's console blocks run as they stand, in an empty home."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import own_network

ROOT = Path(__file__).parent.parent


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.mark.slow
@pytest.mark.timeout(900)  # It installs the package and its dependencies.
def test_every_command_of_the_readme_works_in_an_empty_home(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    home = tmp_path / "home"
    home.mkdir()
    env = {"HOME": str(home), "PATH": f"{tmp_path / 'venv/bin'}:{os.environ['PATH']}"}
    # The way to the package registry is the machine's, not the user's.
    env |= {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_"))}

    assert len(commands()) >= 5
    try:
        for line in commands():
            result = subprocess.run(
                line,
                shell=True,
                cwd=ROOT,
                env=env,
                capture_output=True,
                text=True,
                timeout=600,
                preexec_fn=own_network.leave,
            )
            assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
    finally:
        subprocess.run("arena down", shell=True, env=env, check=False, capture_output=True)
