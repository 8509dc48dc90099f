"""Models as their pages show them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from kubekit.objects.meta import Key
from muster.contract.exported_models import (
    MODEL_DIR,
    File,
    Maker,
    Model,
    Signature,
    Tensor,
    Version,
)
from muster.web.views.models import (
    exporting_jobs,
    model_page,
    models_view,
    sample_input,
    tensor_type,
)
from tests.muster.web.objects import job

NOW = datetime(2026, 1, 2, 3, 4, 30, tzinfo=UTC)
KEY = Key("team", "model-tfjob-mnist")


def version(name: str, **fields: object) -> Version:
    defaults = {"format": "npz", "created": datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "size": 2048}
    return Version(name, name, **{**defaults, **fields})  # type: ignore[arg-type]


def model(*versions: Version) -> Model:
    return Model("mnist", Maker("kubeflow.org/v1", "TFJob", "mnist", "u2"), "/m", versions)


def test_the_list_shows_the_newest_version() -> None:
    view = models_view([(KEY, model(version("2"), version("1")))], NOW)

    (row,) = view.rows
    assert (row.newest.version, row.versions, row.size, row.age) == ("2", 2, "2.0 KiB", 30)
    assert row.job_has_page


def test_jobs_that_export_are_listed_those_without_a_listed_model_first() -> None:
    listed, named, plain = (job(name, namespace="team") for name in ("mnist", "z", "a"))
    listed["metadata"]["annotations"] = {MODEL_DIR: "/m"}
    template = named["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"annotations": {MODEL_DIR: "/n"}}

    rows = exporting_jobs([listed, named, plain], [(KEY, model(version("1")))])

    assert [(row.name, row.directory, row.is_listed) for row in rows] == [
        ("z", "/n", False),
        ("mnist", "/m", True),
    ]


def test_a_version_shows_its_files_tensors_and_maker() -> None:
    files = (File("model.npz", 10),)
    tensors = (Tensor("weights", "float64", (20, -1, "batch")),)
    old = version("1", files=files, file_count=3, tensors=tensors, job_uid="u1")
    page = model_page((KEY, model(version("2", job_uid="u2"), old)), NOW)

    newest, oldest = page.versions
    assert (newest.earlier_job, oldest.earlier_job) == (False, True)
    assert oldest.files == (("model.npz", "10 B"),)
    assert oldest.more_files == 2
    assert tensor_type(oldest.published.tensors[0]) == "float64 [20 × ? × batch]"


X = Tensor("x", "float32", (-1, 2))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (version("1", tensors=(Tensor("w", "float64", (3, 2)),)), {"inputs": [[0.0, 0.0, 0.0]]}),
        (version("1", tensors=(Tensor("w", "float64", (10**9, 2)),)), {}),
        (version("1", tensors=(Tensor("a"), Tensor("b"))), {}),
        (version("1", signatures=(Signature("f", (X,)),)), {"inputs": {"x": [[0.0, 0.0]]}}),
        (version("1", signatures=(Signature("f", (Tensor("s", "string", (1,)),)),)), {}),
        (version("1", signatures=(Signature("f", (Tensor("x", "int8", (9, 99, 999)),)),)), {}),
    ],
)
def test_the_example_of_an_input_fits_the_model(row: Version, expected: object) -> None:
    assert json.loads(sample_input(row)) == expected
