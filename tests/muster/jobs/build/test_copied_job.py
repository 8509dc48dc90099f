"""The manifest of an existing job as a new one."""

from __future__ import annotations

import pytest

from muster.jobs import parse
from muster.jobs.build import job_manifest
from muster.jobs.build.copied_job import companion_names, copied_job, next_name
from muster.jobs.build.flags import Mpi, PyTorch, Site, TensorFlow


def test_a_copy_is_the_job_that_the_new_name_would_have_given() -> None:
    """No label, gang or address of the former job is left."""
    for kind in (TensorFlow, Mpi, PyTorch):
        flags = {"command": ("true",), "image": "x", "workers": 3, "gang": True}
        if kind is TensorFlow:
            flags |= {"worker_affinity_policy": "spread"}
        if kind is Mpi:
            flags |= {"gputopology": True}
        former, expected = (
            job_manifest.bundle(kind(name=name, **flags), Site()).with_user("me").job  # type: ignore[arg-type]
            for name in ("train", "train-2")
        )
        former["metadata"] |= {"uid": "1", "resourceVersion": "5", "generation": 2}
        former["metadata"]["annotations"]["muster.dev/submission"] = "abc"
        former["status"] = {"conditions": []}
        former["spec"]["runPolicy"]["suspend"] = True

        assert copied_job(former, "train-2", "me") == expected
        other = copied_job(former, "train-2", "you")
        assert other["metadata"]["annotations"]["arena.kubeflow.org/username"] == "you"
        assert "train-2" in str(other)
        parse.parse_job({**other, "metadata": {**other["metadata"], "namespace": "x"}})


def test_values_of_the_user_that_equal_the_name_stay() -> None:
    flags = {"command": ("true",), "image": "x", "env": ("RUN=train",), "label": ("team=train",)}
    former = job_manifest.bundle(TensorFlow(name="train", **flags), Site()).job  # type: ignore[arg-type]
    new = copied_job(former, "train-2")

    assert new["metadata"]["labels"]["team"] == "train"
    assert "{'name': 'RUN', 'value': 'train'}" in str(new)
    assert former["metadata"]["labels"]["release"] == "train"


def test_a_broken_manifest_is_copied_too() -> None:
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "x"}}

    assert copied_job({**job, "spec": None}, "x-2", "me")["metadata"] == {"name": "x-2"}
    annotated = {**job, "metadata": {"annotations": {"arena.kubeflow.org/username": "you"}}}
    annotated |= {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"metadata": {}}}}}}
    assert copied_job(annotated, "x-2", "me")["metadata"]["name"] == "x-2"


def test_files_of_the_former_job_are_named() -> None:
    site = Site(files=(("/etc/a.conf", b"text"),))
    flags = TensorFlow(name="train", command=("true",), image="x", config_file=("a.conf",))
    bundle = job_manifest.bundle(flags, site)

    assert companion_names(bundle.job) == [bundle.companions[0]["metadata"]["name"]]


@pytest.mark.parametrize(
    ("name", "taken", "expected"),
    [
        ("train", (), "train-2"),
        ("train-2", (), "train-3"),
        ("train", ("train-2", "train-3"), "train-4"),
        ("a" * 49, (), "a" * 47 + "-2"),
    ],
)
def test_a_copy_gets_the_next_free_name(name: str, taken: tuple[str, ...], expected: str) -> None:
    assert next_name(name, taken) == expected
