"""A function as one file: a zip with the pickled call, the program for the replica, cloudpickle.

The zip has no times and a fixed order, so that the same call gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from muster.sdk.functions import standalone
from muster.sdk.functions.standalone import record

PROGRAM = "muster_function"
"""The name of the standalone package in a replica."""
PYTHON = sys.version_info[:2]
"""The version whose bytecode is in a package."""
LIMIT = record.LIMIT - 4096
"""Bytes of a package in a Secret, beside the key."""


@dataclass(frozen=True)
class Header:
    """What the program in a replica must know before it unpickles anything."""

    function: str
    """Its name, for messages."""
    kind: str
    """Kind of the job: how a replica finds its rank."""
    secret: str
    """Name of the Secret for the result."""
    path: tuple[str, ...] = ()
    """Directories of modules, for replicas on the caller's machine."""
    shared_dir: str = ""
    """Directory that both sides see, for large results."""


def make_package(header: Header, payload: bytes) -> bytes:
    """The zip of a call."""
    about: dict[str, Any] = {**vars(header), "python": PYTHON}
    files = {
        "header.json": json.dumps(about).encode(),
        "payload.pickle": payload,
        **_sources(PROGRAM, Path(standalone.__file__).parent),
        **_cloudpickle(),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(info, content)
    return buffer.getvalue()


def digest(package: bytes) -> str:
    """The digest of a package, which the job's command names."""
    return hashlib.sha256(package).hexdigest()


@cache
def _cloudpickle() -> dict[str, bytes]:
    import cloudpickle

    return _sources("cloudpickle", Path(cloudpickle.__file__).parent)


def _sources(name: str, folder: Path) -> dict[str, bytes]:
    return {f"{name}/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.py"))}
