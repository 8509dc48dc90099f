"""Every form of manifest is parsed into the same job; an invalid one is rejected with its path."""

from __future__ import annotations

import copy

import pytest
import yaml

from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.jobs import parse
from muster.jobs.job import Job
from tests.muster.jobs.builders import manifest, template

BENCHMARKS = """
apiVersion: "kubeflow.org/{version}"
kind: "TFJob"
metadata:
  name: "tfjob-gang-scheduling"
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 1
      template:
        spec:
          {scheduler}
          containers:
          - args: [python, tf_cnn_benchmarks.py, --num_gpus=1]
            image: gcr.io/kubeflow/tf-benchmarks-gpu:v20171202-bdab599-dirty-284af3
            name: tensorflow
            resources:
              limits:
                nvidia.com/gpu: 1
            workingDir: /opt/tf-benchmarks/scripts/tf_cnn_benchmarks
          restartPolicy: OnFailure
    PS:
      replicas: 1
      template:
        spec:
          {scheduler}
          containers:
          - args: [python, tf_cnn_benchmarks.py, --num_gpus=1]
            image: gcr.io/kubeflow/tf-benchmarks-cpu:v20171202-bdab599-dirty-284af3
            name: tensorflow
            resources:
              limits:
                cpu: '1'
            workingDir: /opt/tf-benchmarks/scripts/tf_cnn_benchmarks
          restartPolicy: OnFailure
"""

WORKSHOP = """
apiVersion: kubeflow.org/v1beta1
kind: TFJob
metadata: {name: training-distributed-user1}
spec:
  tfReplicaSpecs:
    Chief: {template: {spec: {containers: [{name: tensorflow, image: training}]}}}
    Ps: {replicas: 1, template: {spec: {containers: [{name: tensorflow, image: training}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: tensorflow, image: training}]}}}
"""

ARRAY = """
apiVersion: kubeflow.org/v1alpha1
kind: TFJob
metadata: {name: distributed-mnist}
spec:
  ReplicaSpecs:
  - Template: {spec: {containers: [{name: tensorflow, image: i}], restartPolicy: OnFailure}}
  - TfReplicaType: Ps
    tfPort: 3333
    Template: {spec: {containers: [{name: tensorflow, image: i}]}}
  - tfReplicaType: WORKER
    replicas: 2
    template: {spec: {containers: [{name: tensorflow, image: i}]}}
"""


def roles(job: Job) -> dict[str, int]:
    return {replica.role: replica.count for replica in job.replica_specs}


@pytest.mark.parametrize(
    ("version", "scheduler", "expected"),
    [("v1beta1", "", ""), ("v1alpha2", "schedulerName: kube-batchd", "kube-batchd")],
)
def test_the_benchmark_jobs_are_read(version: str, scheduler: str, expected: str) -> None:
    job = parse.parse_job(yaml.safe_load(BENCHMARKS.format(version=version, scheduler=scheduler)))

    assert roles(job) == {"PS": 1, "Worker": 1}
    assert [replica.scheduler for replica in job.replica_specs] == [expected, expected]
    assert [replica.restart for replica in job.replica_specs] == ["Never", "Never"]
    assert {reason for reason, _ in job.warnings} == {"SetPodTemplateRestartPolicy"}


def test_the_workshop_job_is_read_with_its_own_letter_case() -> None:
    job = parse.parse_job(yaml.safe_load(WORKSHOP))

    assert roles(job) == {"Chief": 1, "PS": 1, "Worker": 2}
    assert [member.name for member in job.replicas()] == [
        "training-distributed-user1-chief-0",
        "training-distributed-user1-ps-0",
        "training-distributed-user1-worker-0",
        "training-distributed-user1-worker-1",
    ]


def test_the_array_form_is_read_and_its_first_role_is_a_chief() -> None:
    job = parse.parse_job(yaml.safe_load(ARRAY))

    assert roles(job) == {"Chief": 1, "PS": 1, "Worker": 2}
    restarts = {replica.role: replica.restart for replica in job.replica_specs}
    assert restarts == {"Chief": "OnFailure", "PS": "Always", "Worker": "Always"}
    assert {replica.role: replica.port for replica in job.replica_specs}["PS"] == 3333
    assert job.policy.clean_pod_policy == "All"
    assert job.has_phases


def test_a_termination_policy_names_the_chief() -> None:
    raw = yaml.safe_load(ARRAY)
    raw["spec"]["terminationPolicy"] = {"chief": {"replicaName": "WORKER", "replicaIndex": 1}}
    assert parse.parse_job(raw).chief == ("Worker", 1)

    raw["spec"]["terminationPolicy"] = {"chief": {"replicaName": "MASTER", "replicaIndex": 0}}
    assert parse.parse_job(raw).chief == ("Chief", 0)

    raw["spec"]["terminationPolicy"] = {"chief": {"replicaName": "WORKER", "replicaIndex": 2}}
    with pytest.raises(InvalidJob, match=r"spec\.terminationPolicy\.chief: there is no replica"):
        parse.parse_job(raw)


@pytest.mark.parametrize("written", ["worker", "WORKER", "Worker", "wOrKeR"])
def test_a_role_may_be_written_in_any_letter_case(written: str) -> None:
    job = parse.parse_job(manifest({"tfReplicaSpecs": {written: {"template": template()}}}))

    assert roles(job) == {"Worker": 1}


FLAT = {
    "cleanPodPolicy": "Running",
    "ttlSecondsAfterFinished": 5,
    "activeDeadlineSeconds": 6,
    "backoffLimit": 7,
}


@pytest.mark.parametrize(
    "spec", [FLAT, {"runPolicy": FLAT}, {**dict.fromkeys(FLAT, None), "runPolicy": FLAT}]
)
def test_policies_may_be_flat_or_nested(spec: Raw) -> None:
    policy = parse.parse_job(
        manifest({"tfReplicaSpecs": {"Worker": {"template": template()}}, **spec})
    ).policy

    assert (
        policy.clean_pod_policy,
        policy.ttl_seconds,
        policy.active_deadline,
        policy.backoff_limit,
    ) == ("Running", 5, 6, 7)


def test_the_nested_policy_wins() -> None:
    spec = {"backoffLimit": 1, "runPolicy": {"backoffLimit": 2, "suspend": True}}
    policy = parse.parse_job(
        manifest({"tfReplicaSpecs": {"Worker": {"template": template()}}, **spec})
    ).policy

    assert policy.backoff_limit == 2
    assert policy.suspend


def test_the_scheduler_of_the_whole_job_is_given_to_each_template() -> None:
    raw = yaml.safe_load(ARRAY)
    raw["spec"]["schedulerName"] = "kube-batch"

    assert {replica.scheduler for replica in parse.parse_job(raw).replica_specs} == {"kube-batch"}


def test_a_single_container_of_another_name_is_accepted_with_a_warning() -> None:
    job = parse.parse_job(manifest({"tfReplicaSpecs": {"Worker": {"template": template("main")}}}))

    assert job.replica_specs[0].container == "main"
    assert [reason for reason, _ in job.warnings] == ["UnusualContainerName"]


def test_a_name_that_just_fits_is_accepted() -> None:
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 10, "template": template()}}}
    assert parse.parse_job(manifest(spec, name="x" * 54)).total == 10

    spec["tfReplicaSpecs"]["Worker"]["replicas"] = 11
    with pytest.raises(InvalidJob, match="worker-10"):
        parse.parse_job(manifest(spec, name="x" * 54))


def test_parsing_does_not_change_the_manifest() -> None:
    for text in (WORKSHOP, ARRAY):
        raw = yaml.safe_load(text)
        raw["spec"]["schedulerName"] = "volcano"
        before = copy.deepcopy(raw)
        parse.parse_job(raw)
        assert raw == before


def test_the_port_of_the_first_version_is_checked() -> None:
    row = {"tfReplicaType": "WORKER", "tfPort": 70000, "template": template()}
    with pytest.raises(InvalidJob, match="tfPort: is 70000"):
        parse.parse_job(manifest({"replicaSpecs": [row]}))


def test_a_deadline_may_be_longer_than_68_years() -> None:
    job = parse.parse_job(
        manifest(
            {"tfReplicaSpecs": {"Worker": {"template": template()}}, "activeDeadlineSeconds": 2**40}
        )
    )
    assert job.policy.active_deadline == 2**40


def test_elastic_metrics_are_ignored_with_a_warning() -> None:
    spec = {
        "pytorchReplicaSpecs": {"Worker": {"template": template("pytorch")}},
        "elasticPolicy": {"metrics": [{"type": "Resource"}]},
    }
    job = parse.parse_job(manifest(spec, "PyTorchJob"))

    assert [reason for reason, _ in job.warnings] == ["ElasticMetricsIgnored"]
