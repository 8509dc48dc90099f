"""Pods without root: runs tests of this package again as an ordinary user."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.prerequisites import missing_prerequisite

ROOT = Path(__file__).parents[3]
NOBODY = 65534

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already"),
]


def interpreter() -> str:
    """A Python of our version that every user may run: ours may be in root's own home."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin")):
        if candidate and _runs(candidate):
            return candidate
    return missing_prerequisite(
        "rootless", "no interpreter of this version that an ordinary user may run"
    )


def _runs(executable: str) -> bool:
    try:
        subprocess.run([executable, "-V"], user=NOBODY, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


FILES = [
    "test_pods.py",
    "test_exec.py",
    "network/test_pod_names.py",
    "volumes/test_volumes_in_pods.py",
    "test_daemon_killed.py",
    "test_service_account.py",
    "probes/test_probes_in_pods.py",
    "network/test_node_ports.py",
    "test_attach.py",
    "runtime/test_hung_shims.py",
    "runtime/test_sandbox_recreated.py",
    "../../e2e/test_workspace.py",
]


@pytest.mark.parametrize("file", FILES)
def test_an_ordinary_user_runs_the_same_pods(file: str) -> None:
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, NOBODY, NOBODY)
        paths = [*site.getsitepackages(), str(ROOT / "src"), str(ROOT)]
        environment = {
            "HOME": home,
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": ":".join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        options = ["-q", "-p", "no:cacheprovider", f"--basetemp={home}/t", "-o", "addopts="]
        result = subprocess.run(
            [interpreter(), "-m", "pytest", *options, f"tests/local/node/{file}"],
            cwd=ROOT,
            env=environment,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
