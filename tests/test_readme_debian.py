"""The README followed on a fresh Debian, by root and by an ordinary user: install, first job, demo,
the whole suite.

Results are recorded in benchmarks/results/readme_debian.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.debian_root import USER, DebianRoot
from tests.repository import ROOT
from tests.test_readme import first_job, setup

pytestmark = [pytest.mark.long, pytest.mark.parametrize("user", ["root", USER])]

SCRIPT = """
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], sys.prefix, flush=True)
open("checkpoint-" + os.environ["RANK"], "w").write("trained")
"""
OWN_JOB = f"""
mkdir ~/project && cd ~/project
cat > train.py <<'END'{SCRIPT}END
trap 'arena down' EXIT
arena submit pytorch --name=own --workers=2 --wait "python3 train.py"
cat checkpoint-0 checkpoint-1
"""


@pytest.fixture
def debian(tmp_path: Path) -> DebianRoot:
    folder = tmp_path / "debian"
    folder.mkdir()
    return DebianRoot(folder, ROOT)


def home_of(user: str) -> str:
    return "/root" if user == "root" else f"/home/{user}"


def follow(debian: DebianRoot, user: str, *lines: str, packages: str = "") -> str:
    """The output of README lines in the repository's directory, after Debian's packages."""
    apt, _ = setup()
    script = "\n".join(
        ["set -ex", "sudo apt-get update -qq", f"{apt} {packages} >/tmp/apt.log", *lines]
    )
    return debian.run(script, user=user, directory=f"{home_of(user)}/muster")


def test_the_lines_of_the_readme_install_it_and_run_the_first_job(
    debian: DebianRoot, user: str
) -> None:
    _, install = setup()

    output = follow(debian, user, *install, "trap 'arena down' EXIT", *first_job())

    assert "trained: loss" in output
    assert "local cluster is down" in output


@pytest.mark.parametrize(
    ("packages", "install"),
    [
        ("pipx", "pipx install ."),
        (
            "",
            "python3 -m venv /tmp/uv && . /tmp/uv/bin/activate && pip install --quiet uv\n"
            "uv tool install . && deactivate",
        ),
    ],
    ids=["pipx", "uv"],
)
def test_a_tool_that_installs_programs_works_too(
    debian: DebianRoot, user: str, packages: str, install: str
) -> None:
    """The job has the Python of the machine then, not that of Muster."""
    path = 'export PATH="$HOME/.local/bin:$PATH"'

    output = follow(debian, user, install, path, OWN_JOB, packages=packages)

    assert "trainedtrained" in output


def test_make_demo_runs_on_a_fresh_machine(debian: DebianRoot, user: str) -> None:
    assert "Done." in follow(debian, user, "make demo")


def test_make_test_passes_on_a_fresh_machine(debian: DebianRoot, user: str) -> None:
    output = follow(debian, user, "make test")

    assert re.search(r"^=+ \d+ passed, \d+ skipped in ", output, re.MULTILINE), output[-6000:]


def test_tensorboard_answers_after_the_documented_install(debian: DebianRoot, user: str) -> None:
    _, install = setup()
    lines = """
trap 'arena down' EXIT
arena submit tf --name=board --tensorboard \\
    "python examples/numpy_ps.py --steps=20 --logdir=/training_logs"
cp tests/waiting.py /tmp
PYTHONPATH=/tmp python - <<'END'
import subprocess, urllib.request, waiting
def page():
    shown = subprocess.run(["arena", "open", "--print", "board"], capture_output=True, text=True)
    try:
        return urllib.request.urlopen(shown.stdout.strip(), timeout=30).read().decode()
    except (OSError, ValueError):
        return ""
assert "<title>TensorBoard</title>" in waiting.until(page, timeout=60, what="TensorBoard")
print("TensorBoard answers")
END
"""

    assert "TensorBoard answers" in follow(debian, user, *install, lines)
