"""Hidden directories that do not exist when the cluster starts, e.g. `~/.kube`.

Pods that see the directory around one would see it as soon as it is made, because an empty file
system can only cover a directory that exists. So it is made, empty and private, and removed with
the cluster unless somebody has put files into it.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from localkube.node.standalone.linux import files

if TYPE_CHECKING:
    from collections.abc import Iterable

_RECORD = "hidden_directories"


def make_missing(data_dir: Path, hidden: Iterable[str]) -> None:
    """Make those whose parent exists; the record says which ones to remove."""
    made = list(files.read_json(data_dir / _RECORD).get("made", []))
    for path in map(Path, hidden):
        # A parent that we may not write to belongs to another user, whose files are no secrets of
        # ours.
        with contextlib.suppress(OSError):
            path.mkdir(mode=0o700)
            made.append(str(path))
    if made:
        files.write_atomically(data_dir / _RECORD, json.dumps({"made": made}))


def remove_empty(data_dir: Path) -> None:
    """Remove the directories that were made, if they are still empty."""
    for path in files.read_json(data_dir / _RECORD).get("made", []):
        with contextlib.suppress(OSError):
            Path(path).rmdir()
    (data_dir / _RECORD).unlink(missing_ok=True)
