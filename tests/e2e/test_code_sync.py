"""Code from a repository of this machine, fetched and run on the local cluster; waiting for it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local import Local
from tests.require import lack

pytestmark = pytest.mark.slow

TRAIN = """\
import os, subprocess, sys
print("on", subprocess.check_output(["git", "-C", os.path.dirname(os.path.abspath(__file__)),
      "log", "-1", "--format=%s"], text=True).strip())
print("at", os.path.abspath(__file__))
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    cluster = Local(tmp_path_factory.mktemp("home"))
    cluster.up("--nodes", "1")
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trainer on the main branch, and another commit on a branch."""
    if shutil.which("git") is None:
        lack("git", "there is no git on this machine")
    folder = tmp_path_factory.mktemp("code") / "trainer"
    folder.mkdir()

    def git(*words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *author, *words], cwd=folder, check=True)

    git("init", "-q", "-b", "main")
    (folder / "train.py").write_text(TRAIN)
    git("add", "train.py")
    git("commit", "-qm", "the first")
    git("checkout", "-qb", "side")
    git("commit", "-qm", "the side", "--allow-empty")
    git("checkout", "-q", "main")
    return folder


def submit(
    local: Local, name: str, *flags: str, check: bool = True
) -> subprocess.CompletedProcess[str]:
    words = ("submit", "jax", f"--name={name}", "--image=python:3.12", *flags, "--wait")
    return local.arena(*words, check=check)


def test_a_job_trains_with_the_code_of_a_local_repository(local: Local, repository: Path) -> None:
    git = ("--sync-mode=git", f"--sync-source={repository}")
    done = submit(local, "path", *git, "--workers=2", "--gang", "python code/trainer/train.py 0")

    assert "path SUCCEEDED" in done.stderr
    log = local.arena("logs", "path").stdout.splitlines()
    assert log == ["on the first", "at /root/code/trainer/train.py"]


def test_a_branch_by_address_and_another_working_directory(local: Local, repository: Path) -> None:
    git = ("--sync-mode=git", f"--sync-source=file://{repository}", "--sync-branch=side")
    submit(local, "url", *git, "--working-dir=/work/here", "python code/trainer/train.py 0")

    log = local.arena("logs", "url").stdout.splitlines()
    assert log == ["on the side", "at /work/here/code/trainer/train.py"]


def test_the_exit_code_of_a_waiting_submit_is_the_jobs(local: Local, repository: Path) -> None:
    git = ("--sync-mode=git", f"--sync-source={repository}")
    done = submit(local, "bad", *git, "python code/trainer/train.py 3", check=False)

    assert done.returncode == 10
    assert "the job bad failed" in done.stderr


def test_a_repository_that_is_not_there_fails_the_job_and_says_so(
    local: Local, repository: Path
) -> None:
    git = ("--sync-mode=git", f"--sync-source={repository}", "--sync-branch=nowhere")
    done = submit(local, "lost", *git, "python code/trainer/train.py 0", check=False)

    assert done.returncode == 10
    assert "init-code" in done.stderr
