"""The Python interpreter of pods, and the directories it needs.

Its directory is first in PATH. The next one has a script named `python`, for interpreters whose own
directory has no program of this name.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OWN_PATH = "/run/muster/bin"
_PRINT_PATHS = (
    "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, "
    "sys.exec_prefix, sys.base_exec_prefix, *sys.path]))"
)


@dataclass(frozen=True)
class Interpreter:
    executable: str
    directories: tuple[str, ...]

    @property
    def path(self) -> str:
        """PATH for pods."""
        return f"{os.path.dirname(self.executable)}:{_OWN_PATH}:{_SYSTEM_PATH}"

    @property
    def programs(self) -> dict[str, str]:
        """Scripts to add to pods: text by path."""
        # Not a link: an interpreter looks for its virtual environment beside the link.
        return {f"{_OWN_PATH}/python": f'#!/bin/sh\nexec {shlex.quote(self.executable)} "$@"\n'}

    def install(self, folder: Path) -> str:
        """Write our scripts to `folder`; returns PATH for pods that see this machine's files."""
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in self.programs.items():
            file = folder / os.path.basename(path)
            file.write_text(text)
            file.chmod(0o755)
        return self.path.replace(_OWN_PATH, str(folder))


def find_interpreter(executable: str | None = None) -> Interpreter:
    """The interpreter with this name or path, by default our own."""
    path = shutil.which(executable or sys.executable)
    if path is None:
        raise UsageError(f"no such interpreter: {executable}")
    path = os.path.abspath(path)
    if executable is None:  # our own, no need to start it
        paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path]
    else:
        paths = _paths(path)
    folders = {os.path.abspath(folder) for folder in paths if folder and os.path.isdir(folder)}
    if not any(path.startswith(f"{folder}/") for folder in folders):
        path = os.path.realpath(path)  # pods may not see the directory of the link
    return Interpreter(path, tuple(sorted(folders)))


def _paths(executable: str) -> list[str]:
    try:
        result = subprocess.run(
            [executable, "-c", _PRINT_PATHS], capture_output=True, text=True, timeout=20, check=True
        )
        paths: list[str] = json.loads(result.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(f"{executable} is not a usable Python: {error}") from error
    return paths
