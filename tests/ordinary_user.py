"""Run Python as a user without rights, for tests that root starts."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
from pathlib import Path

from tests.prerequisites import missing_prerequisite

ROOT = Path(__file__).parents[1]
NOBODY = 65534


def run_as_nobody(
    home: str, *words: str, cwd: str, timeout: float, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments as nobody, whose home directory is `home`."""
    paths = [*site.getsitepackages(), str(ROOT / "src"), str(ROOT)]
    environment = {
        "HOME": home,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": ":".join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        **variables,
    }
    return subprocess.run(
        [python_for_everyone(), *words],
        cwd=cwd,
        env=environment,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def python_for_everyone() -> str:
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
