"""What the volumes of a pod may not be.

Pure; called by `pods.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import objects, status
from muster.local.apiserver.admission import names
from muster.local.apiserver.admission.validation.containers import check_inside, one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_HOST_PATHS = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_NEEDED = {
    "hostPath": "path",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
}
_SHORTEST, _LONGEST = 600, 2**32


def check(volume: Raw, path: str, taken: set[str]) -> Iterator[Cause]:
    """What is wrong with a volume of a pod; its name is then taken."""
    sources = sorted(kind for kind in volume if kind != "name" and volume[kind] is not None)
    for kind in sources[1:]:
        told = "may not specify more than 1 volume type"
        yield status.forbidden_field(f"{path}.{kind}", told)
    for kind in sources[:1]:
        needed = _NEEDED.get(kind)
        if needed and not objects.at(volume, f"{kind}.{needed}"):
            yield status.required(f"{path}.{kind}.{needed}")
        if kind == "hostPath":
            yield from one_of(volume[kind], "type", _HOST_PATHS, f"{path}.{kind}")
        if kind == "projected":
            yield from _projected(volume[kind], f"{path}.{kind}")
    name = str(volume.get("name") or "")
    wrong = names.check_label(name) if name else []
    if not name:
        yield status.required(f"{path}.name")
    yield from (status.bad_value(f"{path}.name", name, told) for told in wrong)
    if name in taken:
        yield status.duplicate(f"{path}.name", name)
    if name and not wrong:
        taken.add(name)


def _projected(projected: Raw, path: str) -> Iterator[Cause]:
    for i, source in enumerate(projected.get("sources") or ()):
        token = source.get("serviceAccountToken")
        if token is not None:
            yield from _token(token, path, f"{path}.sources[{i}].serviceAccountToken")


def _token(token: Raw, path: str, where: str) -> Iterator[Cause]:
    """A token in a file. The real server does not say which source has the wrong path."""
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST:
        told = "may not specify a duration less than 10 minutes"
        yield status.bad_value(f"{where}.expirationSeconds", seconds, told)
    if seconds is not None and seconds > _LONGEST:
        told = "may not specify a duration larger than 2^32 seconds"
        yield status.bad_value(f"{where}.expirationSeconds", seconds, told)
    file = str(token.get("path") or "")
    if not file:
        yield status.required(f"{path}.path")
    yield from check_inside(file, f"{path}.path")
