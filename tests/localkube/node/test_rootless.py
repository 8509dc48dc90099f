"""Pods without root: runs tests of this package again as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.ordinary_user import NOBODY, python_for_everyone, run_as_nobody
from tests.repository import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already"),
]


FILES = [
    "test_pods.py",
    "test_exec.py",
    "test_processes_of_a_pod.py",
    "test_python_environment.py",
    "network/test_pod_names.py",
    "test_volumes_in_pods.py",
    "test_daemon_killed.py",
    "test_service_account.py",
    "test_probes_in_pods.py",
    "network/test_loopback_ports.py",
    "network/test_services_in_pods.py",
    "test_attach.py",
    "runtime/test_hung_shims.py",
    "runtime/test_sandbox_recreated.py",
    "../../e2e/test_services.py",
    "../../e2e/test_workspace.py",
]


@pytest.mark.parametrize("closed", ["parent", "parent/folder"])
def test_an_ordinary_user_reads_a_folder_that_is_closed(tmp_path: Path, closed: str) -> None:
    folder = tmp_path / "parent" / "folder"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "place.py").write_text("import os; where = os.getuid(), os.getcwd()")
    (folder / "program.py").write_text("from package.place import where; print(*where)")
    (tmp_path / closed).chmod(0o700)

    with tempfile.TemporaryDirectory() as place:
        becoming = [sys.executable, "-m", "tests.as_nobody", str(NOBODY), place, str(folder)]
        result = subprocess.run(
            [*becoming, "--", python_for_everyone(), "program.py"],
            cwd=ROOT,
            env={"PWD": f"{place}/0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert os.listdir(place) == [], "the mount is nobody's alone"

    assert (result.stdout, result.stderr) == (f"{NOBODY} {place}/0\n", "")


@pytest.mark.parametrize("file", FILES)
def test_an_ordinary_user_runs_the_same_pods(file: str) -> None:
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, NOBODY, NOBODY)
        options = ["-q", "-p", "no:cacheprovider", f"--basetemp={home}/t", "-o", "addopts="]
        words = ["-m", "pytest", *options, f"tests/localkube/node/{file}"]
        result = run_as_nobody(home, *words, timeout=300)

    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
