"""The files of a volume that is made of objects: there all at once, and replaced all at once.

Used by `volumes`. As in Kubernetes, the files are in a folder of their own to which `..data` leads,
and what programs open are links through it: turning that one link changes every file in the same
moment. Whoever mounted a single file (subPath) keeps the one it has.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_DATA = "..data"


class VolumeFile(NamedTuple):
    path: str
    data: bytes
    mode: int


def replace_files(folder: Path, files: Iterable[VolumeFile]) -> None:
    """Make the folder's files these, if they are not; what others put there stays."""
    wanted = {_inside(file.path): file for file in files}
    before = _turned_to(folder)
    if before is None or _found(before) != {path: f.data for path, f in wanted.items()}:
        payload = Path(tempfile.mkdtemp(prefix="..", dir=folder))
        payload.chmod(0o755)
        for path, file in wanted.items():
            _write(payload / path, file)
        _turn(folder, payload)
    _tidy(folder, {path.split("/", 1)[0] for path in wanted})


def _tidy(folder: Path, shown: set[str]) -> None:
    """Links for what is shown and for nothing else, and no payload but the one turned to; also
    after a crash at any point."""
    for name in shown:
        if not os.path.lexists(folder / name):
            (folder / name).symlink_to(f"{_DATA}/{name}")
    current = _turned_to(folder)
    for entry in folder.iterdir():
        if entry.is_symlink() and entry.name != _DATA and entry.name not in shown:
            entry.unlink()
        elif entry.name.startswith("..") and not entry.is_symlink() and entry != current:
            shutil.rmtree(entry, ignore_errors=True)


def _inside(path: str) -> str:
    return posixpath.normpath(f"/{path}").lstrip("/")


def _turned_to(folder: Path) -> Path | None:
    try:
        return folder / os.readlink(folder / _DATA)
    except FileNotFoundError:
        return None


def _found(payload: Path) -> dict[str, bytes]:
    files = (path for path in payload.rglob("*") if path.is_file())
    return {str(path.relative_to(payload)): path.read_bytes() for path in files}


def _write(target: Path, file: VolumeFile) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(file.data)
    target.chmod(file.mode)


def _turn(folder: Path, payload: Path) -> None:
    beside = folder / f"{_DATA}_new"
    beside.unlink(missing_ok=True)
    beside.symlink_to(payload.name)
    beside.replace(folder / _DATA)
