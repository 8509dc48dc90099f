"""The Python that pods run, and the directories it needs to see.

Asked once when the agent is made. `python` in a pod is this one: its directory comes first in PATH,
and where that has no `python`, a small program of that name comes next.
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
_ASK = (
    "import json, sys, sysconfig; print(json.dumps([sys.prefix, sys.base_prefix, "
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
        """Programs that pods are given: by path, their text."""
        # Not a link: through one, an interpreter does not find the environment it belongs to.
        return {f"{_OWN_PATH}/python": f'#!/bin/sh\nexec {shlex.quote(self.executable)} "$@"\n'}

    def lay_out(self, folder: Path) -> str:
        """PATH for pods that see this machine's files; our programs are put into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in self.programs.items():
            file = folder / os.path.basename(path)
            file.write_text(text)
            file.chmod(0o755)
        return self.path.replace(_OWN_PATH, str(folder))


def find_interpreter(executable: str | None = None) -> Interpreter:
    """The interpreter of that name or path, by default our own."""
    found = shutil.which(executable or sys.executable)
    if found is None:
        raise UsageError(f"no such interpreter: {executable}")
    found = os.path.abspath(found)
    if os.path.samefile(found, sys.executable) and executable is None:
        asked = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path]
    else:
        asked = _answer(found)
    folders = {os.path.abspath(path) for path in asked if path and os.path.isdir(path)}
    if not any(found.startswith(f"{folder}/") for folder in folders):
        found = os.path.realpath(found)  # a link from elsewhere, which pods might not see
    return Interpreter(found, tuple(sorted(folders)))


def _answer(executable: str) -> list[str]:
    try:
        done = subprocess.run(
            [executable, "-c", _ASK], capture_output=True, text=True, timeout=20, check=True
        )
        answer: list[str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(f"{executable} is not a usable Python: {error}") from error
    return answer
