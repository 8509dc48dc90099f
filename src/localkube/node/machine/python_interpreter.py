"""The Python interpreter of pods, and the directories it needs.

Its directory is first in PATH. The next one has scripts named `python` and `python3`, for
interpreters whose own directory has no program of this name. A submitted job has the user's own
PATH, which ends with these scripts, and names the user's interpreter in a variable. The last one
has a script for each program that the caller's own Python brings along: a program of the same name
beside the pods' Python or of the machine comes first, since it may have plugins.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubekit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")
_PRINT_PATHS = (
    "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, "
    "sys.exec_prefix, sys.base_exec_prefix, *sys.path]))"
)


@dataclass(frozen=True)
class PodPrograms:
    """Programs that every pod finds, and the names that manifests use for them."""

    folder: str = "/run/localkube"
    """In every pod."""
    python_variable: str = "LOCALKUBE_PYTHON"
    """The variable with the interpreter; without it, the cluster's own is used."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Python modules that run as programs, by the program's name."""

    @property
    def first(self) -> str:
        """The directory with `python` and `python3`."""
        return f"{self.folder}/bin"

    @property
    def last(self) -> str:
        """The directory with `modules`, for the end of PATH."""
        return f"{self.folder}/last"


@dataclass(frozen=True)
class Interpreter:
    executable: str
    directories: tuple[str, ...]
    own: str
    """The interpreter that runs the cluster."""
    environment: str = ""
    """Its virtual environment; empty if it is in none."""
    names: PodPrograms = field(default_factory=PodPrograms)

    def directories_beside(self, hidden: Iterable[str]) -> tuple[str, ...]:
        """The directories that pods see. Of one that is itself hidden (a virtual environment that
        is also the home of the cluster), only the interpreter's part."""
        secret = {os.path.realpath(path) for path in hidden}
        shown = []
        for folder in self.directories:
            if os.path.realpath(folder) in secret:
                parts = (os.path.join(folder, name) for name in _PARTS)
                shown += [part for part in parts if os.path.exists(part)]
            else:
                shown.append(folder)
        return tuple(shown)

    @property
    def path(self) -> str:
        """PATH for pods."""
        own = os.path.dirname(self.executable)
        return f"{own}:{self.names.first}:{_SYSTEM_PATH}:{self.names.last}"

    @property
    def programs(self) -> dict[str, str]:
        """Scripts to add to pods: text by path."""
        # Not a link: an interpreter looks for its virtual environment beside the link.
        python, own = shlex.quote(self.executable), shlex.quote(self.own)
        variable = self.names.python_variable
        choice = f'if [ -n "${variable}" ]; then exec "${variable}" "$@"; fi'
        text = f'#!/bin/sh\n{choice}\nexec {python} "$@"\n'
        # -E and -P: neither the job's PYTHONPATH nor a file in its working directory replaces one
        # of the program's modules.
        last = {
            f"{self.names.last}/{name}": f'#!/bin/sh\nexec {own} -E -P -m {module} "$@"\n'
            for name, module in self.names.modules.items()
        }
        return {f"{self.names.first}/{name}": text for name in ("python", "python3")} | last

    def install(self, folder: Path) -> str:
        """Write our scripts to `folder`; returns PATH for pods that see this machine's files."""
        for path, text in self.programs.items():
            file = folder / os.path.relpath(path, self.names.folder)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        return self.path.replace(self.names.folder, str(folder))


def find_interpreter(
    executable: str | None = None, names: PodPrograms | None = None
) -> Interpreter:
    """The interpreter with this name or path, by default our own."""
    names = names or PodPrograms()
    own_paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path]
    own, own_folders = _placed(sys.executable, own_paths)
    if executable is None:
        return Interpreter(own, tuple(sorted(own_folders)), own, _environment(own_paths), names)
    path = shutil.which(executable)
    if path is None:
        raise UsageError(f"no such interpreter: {executable}")
    paths = _paths(path)
    path, folders = _placed(os.path.abspath(path), paths)
    both = tuple(sorted(folders | own_folders))
    return Interpreter(path, both, own, _environment(paths), names)


def _environment(paths: list[str]) -> str:
    prefix, base, *_ = paths
    return prefix if prefix != base else ""


def _placed(executable: str, paths: list[str]) -> tuple[str, set[str]]:
    """An interpreter's path in pods, and the directories they must see to run it."""
    folders = {os.path.abspath(folder) for folder in paths if folder and os.path.isdir(folder)}
    if not any(executable.startswith(f"{folder}/") for folder in folders):
        executable = os.path.realpath(executable)  # pods may not see the directory of the link
    return executable, folders


def _paths(executable: str) -> list[str]:
    try:
        result = subprocess.run(
            [executable, "-c", _PRINT_PATHS], capture_output=True, text=True, timeout=20, check=True
        )
        paths: list[str] = json.loads(result.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(f"{executable} is not a usable Python: {error}") from error
    return paths
