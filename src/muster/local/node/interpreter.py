"""The Python that pods run, and the directories it needs to see.

Asked once when the agent opens. `python` in a pod is this one: its directory comes first in PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

from muster.errors import UsageError

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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
        return f"{os.path.dirname(self.executable)}:{_SYSTEM_PATH}"


def find(executable: str | None = None) -> Interpreter:
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
