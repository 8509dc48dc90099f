"""Models that jobs export: where a job says it writes them, and how their versions are published.

A job names a directory in the annotation MODEL_DIR. Whoever sees that directory (the local node)
publishes each version that appears there to a ConfigMap with the label MODEL, in the namespace of
the job. The ConfigMap has no owner: models outlive their job, until their files are deleted.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.kinds import decoder_of
from kubekit.objects.meta import Object, Raw, mapping

if TYPE_CHECKING:
    from kubekit.objects.core import ConfigMap

MODEL_DIR = "muster.dev/model-dir"
"""Annotation of a job or a pod: the directory in its containers where models appear."""
MODEL = "muster.dev/model"
"""Label of the ConfigMap of a model; its value is the model's name."""
MODEL_NAME = "modelName"
"""Label of the pods of `submit --model-name`."""
DATA_KEY = "model.json"
MAX_DATA = 900_000
"""Bytes of that key: a ConfigMap holds a megabyte."""
SAVED_MODEL, ONNX, SAFETENSORS, NPZ = "SavedModel", "ONNX", "safetensors", "npz"
MAX_ENTRIES = 10_000
"""Entries that are looked at: of one directory, and of a version with all its folders."""
UNVERSIONED = "latest"
"""The version of a model that is in the directory itself and not in a numbered folder."""


_YEARS = range(1970, 2300)
"""Of the times of files; arithmetic with times near the limits of `datetime` fails."""
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Size = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class File(Object, frozen=True):
    path: str = ""
    """Below the folder of the version."""
    size: _Count = 0


class Tensor(Object, frozen=True):
    name: str = ""
    dtype: str = ""
    shape: tuple[_Size | str, ...] = ()
    """Sizes; -1 or the name of a dimension whose size is open."""


class Signature(Object, frozen=True):
    """A function of the model that can be called."""

    name: str = ""
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()


class Version(Object, frozen=True):
    version: str = ""
    path: str = ""
    """The folder of the version, below the model's directory."""
    format: str = ""
    created: _Moment | None = None
    """When the newest of its files was written."""
    size: _Count = 0
    files: tuple[File, ...] = ()
    """The first files; `file_count` counts all."""
    file_count: _Count = 0
    tensors: tuple[Tensor, ...] = ()
    """The arrays in the files, where the format lists them."""
    signatures: tuple[Signature, ...] = ()
    job_uid: str = ""
    """The job that ran when the version appeared."""
    truncated: bool = False
    """Whether it has more files than were looked at: `file_count` and `size` are too small."""
    problem: str = ""
    """Why the file that describes the model cannot be read; empty if it can."""


class Maker(Object, frozen=True):
    """The job that exported the newest version; a pod without an owner is its own job."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class Model(Object, frozen=True):
    name: str = ""
    job: Maker = Maker()
    directory: str = ""
    """The value of the annotation: a path in the containers of the job."""
    versions: tuple[Version, ...] = ()
    """Newest first."""
    omitted: _Count = 0
    """Older versions that exist and are not listed: there are too many for one ConfigMap."""
    truncated: bool = False
    """Whether the directory has more entries than were looked at: any version may be missing."""

    @property
    def unlisted(self) -> str:
        """The versions that the list does not have, in words; empty if it has all."""
        older = "version is" if self.omitted == 1 else "versions are"
        parts = [f"{self.omitted} older {older} not listed"] if self.omitted else []
        if self.truncated:
            parts.append(
                f"{self.directory} has more than {MAX_ENTRIES:,} entries, and versions beyond "
                "these are not listed"
            )
        return "; ".join(parts)

    def version(self, name: str) -> Version | None:
        """The version of this name; the newest for an empty name."""
        rows = (row for row in self.versions if not name or row.version == name)
        return next(rows, None)


def directory_of(job: Raw) -> str:
    """The directory that a job, or one of its pod templates, names; empty without one."""
    groups = map(mapping, mapping(job.get("spec")).values())
    roles = (mapping(role) for group in groups for role in group.values())
    for row in (job, *(mapping(role.get("template")) for role in roles)):
        annotations = mapping(mapping(row.get("metadata")).get("annotations"))
        if named := annotations.get(MODEL_DIR):
            return str(named)
    return ""


def version_order(version: str) -> tuple[int, str]:
    """The sort key of versions: by number."""
    number = read_integer(version, most=10**18)
    return (-1 if number is None else number, version)


def config_map_name(kind: str, job: str) -> str:
    """The name of the ConfigMap for the models of a job."""
    name = f"model-{kind.lower()}-{job}"
    if len(name) <= 253:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name[:242].rstrip('-.')}-{digest}"


def manifest(model: Model, namespace: str, name: str) -> Raw:
    """The ConfigMap that publishes a model: the newest versions, as many as there is room for."""
    label = model.name[:63].rstrip("-._")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {MODEL: label}},
        "data": {DATA_KEY: encode(model)},
    }


def encode(model: Model) -> str:
    text = msgspec.json.encode(model)
    while len(text) > MAX_DATA and model.versions:
        fewer = model.versions[: max(1, len(model.versions) // 2)]
        if len(fewer) == len(model.versions):
            fewer = ()
        omitted = model.omitted + len(model.versions) - len(fewer)
        model = msgspec.structs.replace(model, versions=fewer, omitted=omitted)
        text = msgspec.json.encode(model)
    return text.decode()


def decode(config_map: ConfigMap) -> Model | None:
    """The model that a ConfigMap publishes; None if it has another content.

    Users can write such ConfigMaps too: nothing in one may break the list of all models.
    """
    try:
        model = decoder_of(Model).decode(config_map.data.get(DATA_KEY, ""))
    except msgspec.MsgspecError:
        return None
    moments = (version.created for version in model.versions)
    return model if all(m is None or m.year in _YEARS for m in moments) else None
