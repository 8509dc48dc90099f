"""A function as one file: a zip with the pickled call, the program for the replica, cloudpickle.

The zip has no times and a fixed order, so that the same call gives the same bytes.

The replica finds the package in a volume, and whoever may write the Secret behind it could put
other code there. The command of the job has the package's digest, and only who may change the job
can change the command. So the first lines that run in a replica check the package, then load it
from memory. Nothing is written to a disk: an image may be read-only.
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from muster.sdk.functions import standalone
from muster.sdk.functions.standalone import sealed_record

PROGRAM = "muster_function"
"""The name of the standalone package in a replica."""
PYTHON = sys.version_info[:2]
"""The version whose bytecode is in a package."""
LIMIT = sealed_record.LIMIT - 4096
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


FOLDER = "/etc/muster/function"
"""Where the function's Secret is mounted."""
PACKAGE = "function.zip"

BOOT = """\
import sys
if sys.version_info < (3, 7):  # it cannot load the program, which says this to the caller
    here = "%d.%d" % tuple(sys.version_info[:2])
    sys.exit(
        "muster: the function was sent by Python %s, and the replica has Python %s: "
        "both must have the same minor version" % (sys.argv[4], here)
    )
import hashlib, importlib.machinery, io, os, zipfile
path, digest, folder = sys.argv[1:4]
# Pods that are plain processes of a local cluster find their volumes below another root.
folder = os.environ.get("MUSTER_ROOT", "") + folder
path = os.path.join(folder, path)
with open(path, "rb") as file:
    data = file.read()
if hashlib.sha256(data).hexdigest() != digest:
    sys.exit("muster: " + path + " is not the function that this job was submitted with")
with zipfile.ZipFile(io.BytesIO(data)) as package:
    files = {name: package.read(name) for name in package.namelist()}
class Finder:
    def find_spec(self, name, path=None, target=None):
        stem = name.replace(".", "/")
        for file in (stem + "/__init__.py", stem + ".py"):
            if file in files:
                spec = importlib.machinery.ModuleSpec(name, self, origin=file)
                if file.endswith("/__init__.py"):
                    spec.submodule_search_locations = []
                return spec
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        origin = module.__spec__.origin
        exec(compile(files[origin], "muster/" + origin, "exec"), module.__dict__)
sys.meta_path.insert(0, Finder())
import muster_function.program
sys.exit(muster_function.program.run(files, folder))
"""


def command_line(path: str, digest: str, *, mpi: bool) -> str:
    """The shell command of a replica, or of an MPI launcher, which starts it on the workers.

    `path` is the package, absolute or relative to the folder.
    """
    version = ".".join(map(str, PYTHON))
    words = shlex.join(["-c", BOOT, path, digest, FOLDER, version])
    start = "mpirun " if mpi else "exec "
    python = '"$(command -v python3 || command -v python || echo python3)"'
    return f"{start}{python} {words}"
