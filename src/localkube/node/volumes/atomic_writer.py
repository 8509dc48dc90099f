"""Replaces all files of a volume in one step.

As in Kubernetes, the files are in a directory of their own (the payload), and the link `..data`
points to it. Programs open `NAME`, a link to `..data/NAME`: replacing the one link `..data` changes
every file at the same moment. A container that mounted a single file (subPath) keeps the old one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from localkube.node.standalone.linux.files import inside

if TYPE_CHECKING:
    from collections.abc import Iterable

_DATA = "..data"


class VolumeFile(NamedTuple):
    path: str
    data: bytes
    mode: int


def replace_files(folder: Path, files: Iterable[VolumeFile]) -> None:
    """Make these the files of the volume, unless they already are; files of others stay."""
    new = {inside(file.path): file for file in files}
    current = _current(folder)
    if current is None or _read(current) != {path: f.data for path, f in new.items()}:
        payload = Path(tempfile.mkdtemp(prefix="..", dir=folder))
        payload.chmod(0o755)  # mkdtemp makes it private
        for path, file in new.items():
            make_readable(payload, path)
            _write(payload / path, file)
        _switch(folder, payload)
    # Also if nothing changed: a crash may have come between the switch and the links.
    _tidy(folder, {path.split("/", 1)[0] for path in new})


def make_readable(folder: Path, path: str) -> None:
    """Make the directories of a file in a volume; programs of any user in the pod may enter."""
    for parent in reversed(Path(path).parents[:-1]):
        (folder / parent).mkdir(exist_ok=True)
        (folder / parent).chmod(0o755)


def _tidy(folder: Path, shown: set[str]) -> None:
    """Make missing links; remove links and directories left by a crash or an older version."""
    for name in shown:
        if not os.path.lexists(folder / name):
            (folder / name).symlink_to(f"{_DATA}/{name}")
    current = _current(folder)
    for entry in folder.iterdir():
        if entry.is_symlink() and entry.name != _DATA and entry.name not in shown:
            entry.unlink()
        elif entry.name.startswith("..") and not entry.is_symlink() and entry != current:
            shutil.rmtree(entry, ignore_errors=True)


def _current(folder: Path) -> Path | None:
    try:
        return folder / os.readlink(folder / _DATA)
    except FileNotFoundError:
        return None


def _read(payload: Path) -> dict[str, bytes]:
    files = (path for path in payload.rglob("*") if path.is_file())
    return {str(path.relative_to(payload)): path.read_bytes() for path in files}


def _write(target: Path, file: VolumeFile) -> None:
    target.write_bytes(file.data)
    target.chmod(file.mode)


def _switch(folder: Path, payload: Path) -> None:
    # A link cannot be overwritten, but renaming another one over it is atomic.
    link = folder / f"{_DATA}_new"
    link.unlink(missing_ok=True)
    link.symlink_to(payload.name)
    link.replace(folder / _DATA)
