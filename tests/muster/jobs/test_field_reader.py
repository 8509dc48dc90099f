"""Every field of a manifest is honoured or rejected with its path, never ignored silently."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.jobs import invalid_job, parse
from muster.jobs.job import Job
from tests.muster.jobs.builders import CONTAINERS, manifest, template


def pod(kind: str = "TFJob", **spec: Any) -> Raw:
    return template(CONTAINERS[kind], **spec)


def read(spec: Raw, kind: str = "TFJob") -> Job:
    return parse.parse_job(manifest(spec, kind))


def rejected(spec: Raw, kind: str = "TFJob") -> InvalidJob:
    with pytest.raises(InvalidJob) as error_info:
        read(spec, kind)
    assert error_info.value.hint
    return error_info.value


WORKER: Raw = {"Worker": {"template": pod()}}
MPI: Raw = {"Launcher": {"template": pod("MPIJob")}, "Worker": {"template": pod("MPIJob")}}


@pytest.mark.parametrize("manager", ["kubeflow.org/training-operator", "", None])
def test_a_job_managed_by_muster_names_its_operator_or_no_manager(manager: object) -> None:
    job = read({"tfReplicaSpecs": WORKER, "runPolicy": {"managedBy": manager}})
    assert job.policy.managed_by == (manager or "")


def test_a_job_may_be_managed_by_another_cluster() -> None:
    policy = {"managedBy": "kueue.x-k8s.io/multikueue"}
    assert read({"tfReplicaSpecs": WORKER, "runPolicy": policy}).policy.managed_by


def test_an_mpi_job_may_name_its_own_operator() -> None:
    policy = {"managedBy": "kubeflow.org/mpi-operator"}
    assert read({"mpiReplicaSpecs": MPI, "runPolicy": policy}, "MPIJob").policy.managed_by

    error = rejected({"tfReplicaSpecs": WORKER, "runPolicy": policy})
    assert error.field == "spec.runPolicy.managedBy"


def test_an_unknown_manager_is_rejected() -> None:
    error = rejected({"tfReplicaSpecs": WORKER, "runPolicy": {"managedBy": "foo"}})

    assert str(error) == "spec.runPolicy.managedBy: 'foo' is unknown"
    assert "kubeflow.org/training-operator" in error.hint
    assert "kueue.x-k8s.io/multikueue" in error.hint


def test_policies_of_a_job_with_an_unknown_manager_still_count() -> None:
    policy = {"managedBy": "foo", "ttlSecondsAfterFinished": 5}
    raw = {"kind": "TFJob", "spec": {"tfReplicaSpecs": WORKER, "runPolicy": policy}}

    assert invalid_job.job_from_metadata(raw).policy.ttl_seconds == 5


@pytest.mark.parametrize(("kind", "default"), [("TFJob", "None"), ("MPIJob", "All")])
def test_only_an_mpi_job_with_one_template_is_cleaned_up_as_its_first_version(
    kind: str, default: str
) -> None:
    raw = {"kind": kind, "spec": {"template": pod(kind)}}

    assert invalid_job.job_from_metadata(raw).policy.clean_pod_policy == default


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        (
            "TFJob",
            {"tfReplicaSpecs": WORKER, "replicaSpecs": [{"template": pod()}]},
            "replicaSpecs",
        ),
        ("TFJob", {"tfReplicaSpecs": WORKER, "pytorchReplicaSpecs": {}}, "pytorchReplicaSpecs"),
        ("TFJob", {"tfReplicaSpecs": WORKER, "TFReplicaSpecs": WORKER}, "TFReplicaSpecs"),
        ("MPIJob", {"mpiReplicaSpecs": MPI, "template": pod("MPIJob")}, "template"),
    ],
)
def test_replicas_are_written_in_one_place(kind: str, spec: Raw, field: str) -> None:
    error = rejected(spec, kind)

    assert error.field == f"spec.{field}"
    assert "is given too" in str(error)


def test_an_empty_field_for_replicas_does_not_count() -> None:
    assert read({"tfReplicaSpecs": WORKER, "replicaSpecs": None}).total == 1


def test_the_fields_of_a_replica_may_be_written_in_any_letter_case() -> None:
    role = {"Replicas": 3, "Template": pod(), "RestartPolicy": "Always"}
    job = read({"tfReplicaSpecs": {"Worker": role}})
    assert (job.total, job.replica_specs[0].restart) == (3, "Always")

    launcher = {"template": pod("MPIJob"), "RESTARTPOLICY": "Never"}
    spec = {"mpiReplicaSpecs": {**MPI, "Launcher": launcher}, "sshAuthMountPath": "/root/.ssh"}
    assert read(spec, "MPIJob").replica_spec("Launcher").restart == "Never"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"replicas": 1, "Replicas": 3, "template": pod()}, "Worker.Replicas"),
        ({"template": pod(), "TEMPLATE": pod()}, "Worker.TEMPLATE"),
    ],
)
def test_a_field_is_not_written_twice_in_two_letter_cases(body: Raw, field: str) -> None:
    error = rejected({"tfReplicaSpecs": {"Worker": body}})

    assert error.field == f"spec.tfReplicaSpecs.{field}"


@pytest.mark.parametrize(
    ("kind", "spec", "field", "right"),
    [
        ("TFJob", {"RunPolicy": {"suspend": True}}, "RunPolicy", "runPolicy"),
        ("TFJob", {"CleanPodPolicy": "All"}, "CleanPodPolicy", "cleanPodPolicy"),
        ("TFJob", {"runPolicy": {"Suspend": True}}, "runPolicy.Suspend", "suspend"),
        (
            "TFJob",
            {"runPolicy": {"schedulingPolicy": {"Queue": "q"}}},
            "runPolicy.schedulingPolicy.Queue",
            "queue",
        ),
        ("TFJob", {"EnableDynamicWorker": True}, "EnableDynamicWorker", "enableDynamicWorker"),
        ("PyTorchJob", {"nProcPerNode": "2"}, "nProcPerNode", "nprocPerNode"),
        ("PyTorchJob", {"ElasticPolicy": {}}, "ElasticPolicy", "elasticPolicy"),
        (
            "PyTorchJob",
            {"elasticPolicy": {"MinReplicas": 1}},
            "elasticPolicy.MinReplicas",
            "minReplicas",
        ),
        ("MPIJob", {"SlotsPerWorker": 2}, "SlotsPerWorker", "slotsPerWorker"),
        ("MPIJob", {"sshauthmountpath": "/x"}, "sshauthmountpath", "sshAuthMountPath"),
    ],
)
def test_a_policy_in_another_letter_case_is_rejected(
    kind: str, spec: Raw, field: str, right: str
) -> None:
    where = {"TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}.get(
        kind, "pytorchReplicaSpecs"
    )
    roles = MPI if kind == "MPIJob" else {"Worker": {"template": pod(kind)}}
    error = rejected({where: roles, **spec}, kind)

    assert error.field == f"spec.{field}"
    assert right in error.hint


@pytest.mark.parametrize("name", ["other", {"a": 1}, 5])
def test_a_main_container_that_no_role_has_is_rejected(name: object) -> None:
    error = rejected({"mpiReplicaSpecs": MPI, "mainContainer": name}, "MPIJob")
    assert error.field == "spec.mainContainer"


def test_the_main_container_is_used_in_roles_that_have_it() -> None:
    two = {"spec": {"containers": [{"name": n, "image": "i"} for n in ("mpi", "side")]}}
    roles = {"Launcher": {"template": pod("MPIJob")}, "Worker": {"template": two}}
    job = read({"mpiReplicaSpecs": roles, "mainContainer": "side"}, "MPIJob")

    assert [replica.container for replica in job.replica_specs] == ["mpi", "side"]


@pytest.mark.parametrize(
    ("value", "words"), [("yes", "is text, not true or false"), (1, "is a number")]
)
def test_host_network_of_a_template_must_be_valid(value: object, words: str) -> None:
    error = rejected({"tfReplicaSpecs": {"Worker": {"template": pod(hostNetwork=value)}}})

    assert error.field == "spec.tfReplicaSpecs.Worker.template.spec.hostNetwork"
    assert words in str(error)


@pytest.mark.parametrize("path", ["relative", "./x", "~/.ssh", "a/b", "/a:b"])
def test_ssh_keys_need_an_absolute_path(path: str) -> None:
    error = rejected({"mpiReplicaSpecs": MPI, "sshAuthMountPath": path}, "MPIJob")
    assert error.field == "spec.sshAuthMountPath"


@pytest.mark.parametrize("role", ["Chief", "Master"])
def test_there_is_one_chief_at_most(role: str) -> None:
    error = rejected({"tfReplicaSpecs": {role: {"replicas": 3, "template": pod()}}})

    assert str(error) == f"spec.tfReplicaSpecs.{role}.replicas: is 3; a TFJob has one {role}"
    assert read({"tfReplicaSpecs": {role: {"replicas": 0, "template": pod()}, **WORKER}}).total == 1


@pytest.mark.parametrize(
    ("kind", "field", "roles"),
    [("TFJob", "tfReplicaSpecs", WORKER), ("MPIJob", "mpiReplicaSpecs", MPI)],
)
def test_the_scheduler_that_a_job_names_is_that_of_all_its_replicas(
    kind: str, field: str, roles: Raw
) -> None:
    job = read({field: roles, "schedulerName": "other"}, kind)

    assert {replica.spec["schedulerName"] for replica in job.replica_specs} == {"other"}
