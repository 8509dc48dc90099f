"""The programs that pods find on their PATH: their Python first, Muster's TensorBoard last."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from kubekit.errors import UsageError
from localkube.node.machine.python_interpreter import Interpreter, PodPrograms, find_interpreter

PROGRAMS = PodPrograms(modules={"tensorboard": "tensorboard.main"})


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """An interpreter without packages."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    return str(tmp_path / "env" / "bin" / "python")


def run(interpreter: Interpreter, folder: Path, command: str, **env: str) -> str:
    """The output of a shell command in a pod that sees the machine's files."""
    variables = {"PATH": interpreter.install(folder), **env}
    return subprocess.run(
        ["sh", "-c", command], env=variables, capture_output=True, text=True, check=True, cwd=folder
    ).stdout


@pytest.mark.slow
def test_pods_with_another_python_have_the_programs_of_the_caller(
    bare: str, tmp_path: Path
) -> None:
    interpreter = find_interpreter(bare, PROGRAMS)
    programs = tmp_path / "programs"
    # A file of the job with the name of one of TensorBoard's modules is not TensorBoard's.
    job = tmp_path / "job"
    job.mkdir()
    (job / "werkzeug.py").write_text("raise SystemExit('the wrong module')")

    version = run(interpreter, programs, f"cd {job} && tensorboard --version", PYTHONPATH=str(job))

    assert version.startswith("2.")
    assert run(interpreter, programs, "command -v python").strip() == bare
    assert {sys.prefix, str(Path(bare).parent.parent)} <= set(interpreter.directories)


def test_a_tensorboard_beside_the_pods_python_comes_first(bare: str, tmp_path: Path) -> None:
    theirs = Path(bare).with_name("tensorboard")
    theirs.write_text("#!/bin/sh\necho theirs\n")
    theirs.chmod(0o755)

    assert run(find_interpreter(bare, PROGRAMS), tmp_path / "programs", "tensorboard") == "theirs\n"


def test_pods_run_muster_s_own_python_unless_another_is_named() -> None:
    interpreter = find_interpreter()

    assert interpreter.executable == interpreter.own
    assert os.path.samefile(interpreter.own, sys.executable)


def test_an_interpreter_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(UsageError, match="no such interpreter: nosuch"):
        find_interpreter("nosuch")
