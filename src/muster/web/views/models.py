"""Models that jobs exported: the list, and one model with its versions."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.objects.meta import Key, Raw, key_of
from muster.contract.exported_models import NPZ, config_map_name, directory_of
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.jobs.view.units import size_of
from muster.web.views import guarded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from muster.contract.exported_models import Model, Tensor, Version

    Published = tuple[Key, Model]

MAX_ROWS = 500
_MAX_SAMPLE = 256
"""Numbers in an example of an input."""


class ModelRow(msgspec.Struct, frozen=True):
    """A model with its newest version."""

    namespace: str
    config_map: str
    model: Model
    newest: Version
    size: str
    versions: int
    job_has_page: bool
    age: float


class ExportingJob(msgspec.Struct, frozen=True, order=True):
    """A job that says where it exports models, in a volume that only a pod can read."""

    namespace: str
    name: str
    kind: str
    directory: str
    is_listed: bool


class ModelsView(msgspec.Struct, frozen=True):
    rows: tuple[ModelRow, ...]
    total: int
    jobs: tuple[ExportingJob, ...] = ()


class VersionRow(msgspec.Struct, frozen=True):
    published: Version
    size: str
    age: float
    files: tuple[tuple[str, str], ...]
    more_files: int
    earlier_job: bool
    """Whether it was made by an earlier job of the same name."""


class Prediction(msgspec.Struct, frozen=True):
    """The answer of a version to an input, or why there is none."""

    version: str = ""
    text: str = ""
    error: str = ""
    hint: str = ""


class ModelPage(msgspec.Struct, frozen=True):
    row: ModelRow
    directory: str
    versions: tuple[VersionRow, ...]
    unlisted: str
    """The versions that the table does not have, in words."""
    input: str
    """The JSON in the form: the reader's own, else an example."""
    prediction: Prediction


def models_view(
    models: Sequence[Published], now: datetime, jobs: tuple[ExportingJob, ...] = ()
) -> ModelsView:
    """The list; `models` are sorted, the newest first."""
    rows = (
        guarded(partial(_row, *model, now), lambda: None, model[0]) for model in models[:MAX_ROWS]
    )
    return ModelsView(tuple(filter(None, rows)), len(models), jobs[:MAX_ROWS])


def exporting_jobs(jobs: Iterable[Raw], models: Sequence[Published]) -> tuple[ExportingJob, ...]:
    """The jobs that name a directory of models, those without a listed model first."""
    listed = {key for key, _ in models}
    found = []
    for job in jobs:
        if directory := directory_of(job):
            key, kind = key_of(job), str(job["kind"])
            is_listed = Key(key.namespace, config_map_name(kind, key.name)) in listed
            found.append(ExportingJob(*key, kind, directory, is_listed))
    return tuple(sorted(found, key=lambda row: (row.is_listed, row)))


def model_page(
    published: Published, now: datetime, given: str = "", prediction: Prediction | None = None
) -> ModelPage:
    key, model = published
    return ModelPage(
        row=_row(key, model, now),
        directory=model.directory,
        versions=tuple(_version(row, model, now) for row in model.versions),
        unlisted=model.unlisted,
        input=given or sample_input(model.versions[0]),
        prediction=prediction or Prediction(),
    )


def _row(key: Key, model: Model, now: datetime) -> ModelRow:
    newest = model.versions[0]
    return ModelRow(
        namespace=key.namespace,
        config_map=key.name,
        model=model,
        newest=newest,
        size=_size(newest),
        versions=len(model.versions) + model.omitted,
        job_has_page=model.job.kind in JOB_KIND_BY_NAME,
        age=_seconds(newest, now),
    )


def _size(version: Version) -> str:
    return f"> {size_of(version.size)}" if version.truncated else size_of(version.size)


def _seconds(version: Version, now: datetime) -> float:
    return (now - version.created).total_seconds() if version.created else 0.0


def _version(row: Version, model: Model, now: datetime) -> VersionRow:
    return VersionRow(
        published=row,
        size=_size(row),
        age=_seconds(row, now),
        files=tuple((file.path, size_of(file.size)) for file in row.files),
        more_files=max(0, row.file_count - len(row.files)),
        earlier_job=bool(row.job_uid) and row.job_uid != model.job.uid,
    )


def tensor_type(tensor: Tensor) -> str:
    """`float64 [20 × ?]`; a question mark is a size that is open."""
    sizes = " × ".join("?" if size == -1 else str(size) for size in tensor.shape)
    return f"{tensor.dtype} [{sizes}]"


def sample_input(version: Version) -> str:
    """An input of zeros that fits the version; `{}` if that is not known."""
    inputs: Any = None
    if version.signatures:
        chosen = next((s for s in version.signatures if s.name == "serving_default"), None)
        tensors = (chosen or version.signatures[0]).inputs
        values = {tensor.name: _zeros(tensor) for tensor in tensors}
        inputs = values if None not in values.values() else None
    elif version.format == NPZ:
        rows = version.tensors
        weights = [row for row in rows if row.name == "weights" or len(rows) == 1]
        if weights and len(weights[0].shape) == 2:
            size = weights[0].shape[0]
            if isinstance(size, int) and 0 < size <= _MAX_SAMPLE:
                inputs = [[0.0] * size]
    return msgspec.json.encode({"inputs": inputs} if inputs else {}).decode()


def _zeros(tensor: Tensor) -> Any:
    """A nested list of zeros, with one row where the size is open; None if it is too large."""
    if tensor.dtype == "string" or not tensor.dtype:
        return None
    sizes = [size if isinstance(size, int) and size > 0 else 1 for size in tensor.shape[:8]]
    if math.prod(sizes) > _MAX_SAMPLE:
        return None
    value: Any = False if tensor.dtype == "bool" else 0 if "int" in tensor.dtype else 0.0
    for size in reversed(sizes):
        value = [value] * size
    return value
