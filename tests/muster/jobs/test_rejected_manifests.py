"""Manifests that are rejected, with the path of the field and a hint."""

from __future__ import annotations

import pytest

from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.jobs import parse
from tests.muster.jobs.builders import manifest, template

TWO = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}}


BAD: list[tuple[Raw, str]] = [
    ({}, "spec.tfReplicaSpecs: is missing"),
    ({"tfReplicaSpecs": {}}, "spec.tfReplicaSpecs: has no roles"),
    ({"tfReplicaSpecs": []}, "spec.tfReplicaSpecs: is a list, not an object"),
    (
        {"tfReplicaSpecs": {"Boss": {"template": template()}}},
        "spec.tfReplicaSpecs.Boss: unknown role",
    ),
    (
        {"tfReplicaSpecs": {"PS": {"template": template()}, "Ps": {"template": template()}}},
        "spec.tfReplicaSpecs.Ps: the role PS appears twice",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"replicas": -1, "template": template()}}},
        "spec.tfReplicaSpecs.Worker.replicas: is -1",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"replicas": "2", "template": template()}}},
        "spec.tfReplicaSpecs.Worker.replicas: is text, not a whole number",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"replicas": True, "template": template()}}},
        "spec.tfReplicaSpecs.Worker.replicas: is true or false",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {}}},
        "spec.tfReplicaSpecs.Worker.template.spec.containers: is empty",
    ),
    ({"tfReplicaSpecs": {"Worker": {"template": TWO}}}, "none of a, b is named 'tensorflow'"),
    (
        {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "x"}]}}}}},
        "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image: is missing",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"template": template(), "restartPolicy": "Sometimes"}}},
        "spec.tfReplicaSpecs.Worker.restartPolicy: 'Sometimes' is unknown",
    ),
    (
        {"tfReplicaSpecs": {"Chief": {"template": template()}, "Master": {"template": template()}}},
        "spec.tfReplicaSpecs.Master: there is a Chief already",
    ),
    (
        {
            "tfReplicaSpecs": {"Worker": {"template": template()}},
            "runPolicy": {"cleanPodPolicy": "X"},
        },
        "spec.runPolicy.cleanPodPolicy: 'X' is unknown",
    ),
    (
        {
            "tfReplicaSpecs": {"Worker": {"template": template()}},
            "runPolicy": {"backoffLimit": "six"},
        },
        "spec.runPolicy.backoffLimit: is text",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"template": template()}}, "successPolicy": "Most"},
        "spec.successPolicy: 'Most' is unknown",
    ),
    (
        {
            "replicaSpecs": [
                {"template": template()},
                {"tfReplicaType": "chief", "template": template()},
            ]
        },
        "spec.replicaSpecs[1]: the role Chief appears twice",
    ),
    ({"replicaSpecs": {"Worker": {}}}, "spec.replicaSpecs: is an object, not a list"),
]


@pytest.mark.parametrize(("spec", "message"), BAD, ids=[message for _, message in BAD])
def test_an_invalid_manifest_is_rejected_with_the_path_and_a_hint(spec: Raw, message: str) -> None:
    with pytest.raises(InvalidJob) as rejection:
        parse.parse_job(manifest(spec))

    assert message in str(rejection.value)
    assert rejection.value.hint


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("3", "write 3 without quotes"),
        (" 3 ", "write 3 without quotes"),
        ("abc", "write a number such as 1"),
        ("", "write a number such as 1"),
        (1.5, "write a number such as 1"),
    ],
)
def test_the_hint_mentions_quotes_only_around_a_number(written: object, hint: str) -> None:
    with pytest.raises(InvalidJob) as rejection:
        parse.parse_job(
            manifest({"tfReplicaSpecs": {"Worker": {"replicas": written, "template": template()}}})
        )

    assert rejection.value.hint == hint


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "x" * 55,
            f"'{'x' * 55}-worker-0', derived from it, has 64 characters; at most 63 are allowed",
        ),
        ("with.dots", "'with.dots-worker-0', derived from it, is not a DNS label"),
        ("0day", "'0day-worker-0', derived from it, is not a DNS label"),
        ("Upper", "'Upper-worker-0', derived from it, is not a DNS label"),
    ],
)
def test_a_name_is_checked_by_the_longest_name_derived_from_it(name: str, message: str) -> None:
    spec = {"tfReplicaSpecs": {"Worker": {"template": template()}}}
    with pytest.raises(InvalidJob) as rejection:
        parse.parse_job(manifest(spec, name=name))

    assert str(rejection.value) == f"metadata.name: {message}"


def test_another_kind_is_rejected() -> None:
    with pytest.raises(InvalidJob, match="'Deployment' is not a job"):
        parse.parse_job({"kind": "Deployment"})


@pytest.mark.parametrize("written", ["tfReplicaSpec", "tfreplicaspec", "tfReplicas", "ReplicaSpec"])
def test_a_field_that_is_almost_right_is_named(written: str) -> None:
    with pytest.raises(InvalidJob) as rejection:
        parse.parse_job(manifest({written: {"Worker": {"template": template()}}}))

    assert rejection.value.hint == f"write tfReplicaSpecs instead of {written}"


@pytest.mark.parametrize("count", [10_000, 2_000_000_000])
def test_a_job_with_too_many_replicas_is_rejected_at_once(count: int) -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    roles = {"PS": {"template": template}, "Worker": {"replicas": count, "template": template}}
    raw = {"kind": "TFJob", "metadata": {"name": "j"}, "spec": {"tfReplicaSpecs": roles}}

    with pytest.raises(InvalidJob) as rejection:
        parse.parse_job(raw)

    assert rejection.value.field == "spec.tfReplicaSpecs.Worker.replicas"
    assert "at most 10000" in rejection.value.hint


ONE: Raw = {"Worker": {"template": template()}}


SENSELESS: list[tuple[Raw, str]] = [
    ({"runPolicy": {"suspend": "false"}}, "spec.runPolicy.suspend: is text, not true or false"),
    ({"enableDynamicWorker": "no"}, "spec.enableDynamicWorker: is text"),
    ({"activeDeadlineSeconds": 2**63}, "spec.activeDeadlineSeconds: is 9223372036854775808"),
    (
        {"runPolicy": {"schedulingPolicy": {"minResources": {"cpu": "many"}}}},
        "spec.runPolicy.schedulingPolicy.minResources.cpu: ",
    ),
    (
        {"runPolicy": {"schedulingPolicy": {"minResources": {"cpu": True}}}},
        "spec.runPolicy.schedulingPolicy.minResources.cpu: ",
    ),
]


@pytest.mark.parametrize(("spec", "message"), SENSELESS)
def test_invalid_policies_are_rejected(spec: Raw, message: str) -> None:
    with pytest.raises(InvalidJob) as rejection:
        parse.parse_job(manifest({"tfReplicaSpecs": ONE, **spec}))

    assert str(rejection.value).startswith(message)
    assert rejection.value.hint


MPI_POD: Raw = {"spec": {"containers": [{"name": "mpi", "image": "i"}]}}


@pytest.mark.parametrize(
    ("spec", "inside", "container", "field"),
    [
        ({}, {}, {"resources": "x"}, "containers[0].resources"),
        ({}, {}, {"resources": {"limits": "x"}}, "containers[0].resources.limits"),
        ({"launcherOnMaster": True}, {"affinity": "x"}, {}, "affinity"),
        ({"launcherOnMaster": True}, {"tolerations": 5}, {}, "tolerations"),
    ],
)
def test_an_invalid_single_mpi_template_is_rejected(
    spec: Raw, inside: Raw, container: Raw, field: str
) -> None:
    containers = [{"name": "mpi", "image": "i", **container}]
    template = {"spec": {"containers": containers, **inside}}
    raw = manifest({"gpus": 4, "template": template, **spec}, "MPIJob")

    with pytest.raises(InvalidJob) as rejection:
        parse.parse_job(raw)
    assert rejection.value.field == f"spec.template.spec.{field}"


@pytest.mark.parametrize(
    ("field", "value"),
    [("launcherCreationPolicy", "Soon"), ("launcherOnMaster", "false"), ("mountsOnLauncher", 1)],
)
def test_launcher_options_of_an_mpi_job_must_be_valid(field: str, value: object) -> None:
    spec = {"replicas": 1, "template": MPI_POD, field: value}
    with pytest.raises(InvalidJob) as rejection:
        parse.parse_job(manifest(spec, "MPIJob"))

    assert rejection.value.field == f"spec.{field}"
