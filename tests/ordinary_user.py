"""Run Python as a user without rights, for tests that root starts."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import site
import subprocess
import sys
import tempfile

from tests.prerequisites import missing_prerequisite
from tests.repository import ROOT

NOBODY = 65534


def run_as_nobody(
    home: str, *words: str, cwd: str = "", timeout: float, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments as nobody, in `cwd`, else in the root of this project.

    Nobody finds the project and its environment at a place of its own, wherever the clone lies.
    """
    # Debian names folders that do not exist.
    packages_of_ours = filter(os.path.isdir, site.getsitepackages())
    folders, place = [str(ROOT), *packages_of_ours], _place()
    root, *packages = (f"{place}/{number}" for number in range(len(folders)))
    environment = {
        "HOME": home,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PWD": cwd or root,
        "PYTHONPATH": ":".join([*packages, f"{root}/src", root]),
        "PYTHONDONTWRITEBYTECODE": "1",
        **variables,
    }
    becoming = [sys.executable, "-m", "tests.as_nobody", str(NOBODY), place, *folders, "--"]
    return subprocess.run(
        [*becoming, python_for_everyone(), *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@functools.cache
def _place() -> str:
    """The folder for nobody's mounts; kept until our end, since nobody's programs may run on."""
    folder = tempfile.mkdtemp(prefix="nobody-")
    atexit.register(os.rmdir, folder)
    os.chmod(folder, 0o755)
    return folder


@functools.cache
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
