"""The fields of PyTorchJobs only: processes per node, and the elastic policy."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.jobs import parse
from muster.jobs.job import Job
from tests.muster.jobs.builders import manifest, template

POD = template("pytorch")
WORKER: Raw = {"Worker": {"replicas": 2, "template": POD}}
MASTER: Raw = {"Master": {"template": POD}}


def read(roles: Raw, **spec: Any) -> Job:
    return parse.parse_job(manifest({"pytorchReplicaSpecs": roles, **spec}, "PyTorchJob"))


BAD_POLICY: list[tuple[Raw, str]] = [
    ({"minReplicas": "two"}, "minReplicas: is text, not a whole number"),
    ({"minReplicas": "2"}, "minReplicas: is text, not a whole number"),
    ({"minReplicas": -1}, "minReplicas: is -1"),
    ({"minReplicas": 0}, "minReplicas: is 0"),
    ({"maxReplicas": 0}, "maxReplicas: is 0"),
    ({"minReplicas": 5, "maxReplicas": 2}, "minReplicas: is 5, more than maxReplicas, which is 2"),
    ({"minReplicas": 3}, "minReplicas: is 3, more than the number of workers, which is 2"),
    ({"maxReplicas": 1}, "maxReplicas: is 1, less than the number of workers, which is 2"),
    ({"maxRestarts": -3}, "maxRestarts: is -3"),
    ({"rdzvPort": "abc"}, "rdzvPort: is text, not a whole number"),
    ({"rdzvPort": 99999999}, "rdzvPort: is 99999999"),
    ({"rdzvPort": 0}, "rdzvPort: is 0"),
    ({"rdzvHost": {"a": 1}}, "rdzvHost: is an object, not text"),
    ({"rdzvBackend": 17}, "rdzvBackend: is a number, not text"),
    ({"rdzvId": 17}, "rdzvId: is a number, not text"),
    ({"rdzvConf": [{"key": "a"}]}, "rdzvConf[0].value: is missing"),
    ({"rdzvConf": [{"key": "a", "value": 1}]}, "rdzvConf[0].value: is a number, not text"),
    ({"nProcPerNode": "x"}, "nProcPerNode: is text, not a whole number"),
    ({"nProcPerNode": 0}, "nProcPerNode: is 0"),
    ({"standalone": "no"}, "standalone: is text, not true or false"),
    ({"metrics": {"a": 1}}, "metrics: is an object, not a list"),
]


@pytest.mark.parametrize(("policy", "message"), BAD_POLICY, ids=[str(p) for p, _ in BAD_POLICY])
def test_an_invalid_policy_is_rejected_with_its_path(policy: Raw, message: str) -> None:
    with pytest.raises(InvalidJob) as rejection:
        read(WORKER, elasticPolicy=policy)

    assert str(rejection.value).startswith(f"spec.elasticPolicy.{message}")
    assert rejection.value.hint


@pytest.mark.parametrize(
    "policy",
    [
        {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 0, "standalone": False},
        {"minReplicas": 2, "maxReplicas": 2},
        {"rdzvPort": 1, "rdzvHost": "h", "rdzvBackend": "etcd-v2", "rdzvId": "i"},
        {"rdzvConf": [{"key": "timeout", "value": "30"}], "nProcPerNode": 1},
        {"minReplicas": None, "rdzvHost": None, "standalone": None},
    ],
)
def test_a_valid_policy_is_accepted(policy: Raw) -> None:
    assert read(WORKER, elasticPolicy=policy).count("Worker") == 2


@pytest.mark.parametrize(
    ("roles", "field", "words"),
    [
        (MASTER, "spec.pytorchReplicaSpecs.Worker", "is missing"),
        ({**MASTER, "Worker": {"replicas": 0, "template": POD}}, "Worker.replicas", "is 0"),
    ],
)
def test_an_elastic_job_has_workers(roles: Raw, field: str, words: str) -> None:
    with pytest.raises(InvalidJob) as rejection:
        read(roles, elasticPolicy={"rdzvBackend": "c10d"})

    assert rejection.value.field.endswith(field)
    assert words in str(rejection.value)
    assert read(roles).count("Master") == 1


@pytest.mark.parametrize("number", ["auto", "cpu", "gpu", "4", 4, None], ids=repr)
def test_a_number_of_processes_or_a_word_of_torchrun_is_accepted(number: object) -> None:
    assert read(WORKER, nprocPerNode=number).kind == "PyTorchJob"


@pytest.mark.parametrize(
    "number",
    [
        "foo",
        "-2",
        -2,
        "0",
        0,
        "",
        "1.5",
        1.5,
        True,
        {"a": 1},
        "\u0663",
        "²",
        10**30,
        "0" * 5000 + "1",
    ],
    ids=lambda number: repr(number)[:20],
)
def test_any_other_number_of_processes_is_rejected(number: object) -> None:
    with pytest.raises(InvalidJob) as rejection:
        read(WORKER, nprocPerNode=number)

    assert rejection.value.field == "spec.nprocPerNode"
    assert "auto, cpu, gpu" in rejection.value.hint


def test_the_number_of_processes_is_given_in_one_field() -> None:
    with pytest.raises(InvalidJob) as rejection:
        read(WORKER, nprocPerNode="2", elasticPolicy={"nProcPerNode": 3})

    assert rejection.value.field == "spec.elasticPolicy.nProcPerNode"


def test_other_kinds_have_no_such_fields() -> None:
    pod = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    spec = {"tfReplicaSpecs": {"Worker": {"template": pod}}, "nprocPerNode": "foo"}
    parse.parse_job({"kind": "TFJob", "metadata": {"name": "j"}, "spec": spec})
