"""Every shape of manifest is read as the same job, and a bad one is refused with its path."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from muster.api.meta import Raw
from muster.errors import InvalidJob
from muster.jobs import parse
from muster.jobs.job import Job

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


def pod(name: str = "tensorflow", **spec: Any) -> Raw:
    return {"spec": {"containers": [{"name": name, "image": "i"}], **spec}}


def tfjob(spec: Raw, name: str = "j") -> Raw:
    return {"kind": "TFJob", "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


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
    job = parse.parse_job(tfjob({"tfReplicaSpecs": {written: {"template": pod()}}}))

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
        tfjob({"tfReplicaSpecs": {"Worker": {"template": pod()}}, **spec})
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
        tfjob({"tfReplicaSpecs": {"Worker": {"template": pod()}}, **spec})
    ).policy

    assert policy.backoff_limit == 2
    assert policy.suspend


def test_the_scheduler_of_the_whole_job_is_given_to_each_template() -> None:
    raw = yaml.safe_load(ARRAY)
    raw["spec"]["schedulerName"] = "kube-batch"

    assert {replica.scheduler for replica in parse.parse_job(raw).replica_specs} == {"kube-batch"}


def test_a_single_container_of_another_name_is_taken_with_a_warning() -> None:
    job = parse.parse_job(tfjob({"tfReplicaSpecs": {"Worker": {"template": pod("main")}}}))

    assert job.replica_specs[0].container == "main"
    assert [reason for reason, _ in job.warnings] == ["UnusualContainerName"]


TWO = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}}
BAD: list[tuple[Raw, str]] = [
    ({}, "spec.tfReplicaSpecs: is missing"),
    ({"tfReplicaSpecs": {}}, "spec.tfReplicaSpecs: has no roles"),
    ({"tfReplicaSpecs": []}, "spec.tfReplicaSpecs: is a list, not an object"),
    ({"tfReplicaSpecs": {"Boss": {"template": pod()}}}, "spec.tfReplicaSpecs.Boss: unknown role"),
    (
        {"tfReplicaSpecs": {"PS": {"template": pod()}, "Ps": {"template": pod()}}},
        "spec.tfReplicaSpecs.Ps: the role PS appears twice",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"replicas": -1, "template": pod()}}},
        "spec.tfReplicaSpecs.Worker.replicas: is -1",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"replicas": "2", "template": pod()}}},
        "spec.tfReplicaSpecs.Worker.replicas: is text, not a whole number",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"replicas": True, "template": pod()}}},
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
        {"tfReplicaSpecs": {"Worker": {"template": pod(), "restartPolicy": "Sometimes"}}},
        "spec.tfReplicaSpecs.Worker.restartPolicy: 'Sometimes' is unknown",
    ),
    (
        {"tfReplicaSpecs": {"Chief": {"template": pod()}, "Master": {"template": pod()}}},
        "spec.tfReplicaSpecs.Master: there is a Chief already",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"template": pod()}}, "runPolicy": {"cleanPodPolicy": "X"}},
        "spec.runPolicy.cleanPodPolicy: 'X' is unknown",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"template": pod()}}, "runPolicy": {"backoffLimit": "six"}},
        "spec.runPolicy.backoffLimit: is text",
    ),
    (
        {"tfReplicaSpecs": {"Worker": {"template": pod()}}, "successPolicy": "Most"},
        "spec.successPolicy: 'Most' is unknown",
    ),
    (
        {"replicaSpecs": [{"template": pod()}, {"tfReplicaType": "chief", "template": pod()}]},
        "spec.replicaSpecs[1]: the role Chief appears twice",
    ),
    ({"replicaSpecs": {"Worker": {}}}, "spec.replicaSpecs: is an object, not a list"),
]


@pytest.mark.parametrize(("spec", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_manifest_is_refused_with_the_path_and_a_hint(spec: Raw, message: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        parse.parse_job(tfjob(spec))

    assert message in str(refused.value)
    assert refused.value.hint


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
def test_quotes_are_blamed_only_around_a_number(written: object, hint: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        parse.parse_job(
            tfjob({"tfReplicaSpecs": {"Worker": {"replicas": written, "template": pod()}}})
        )

    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x" * 55, f"'{'x' * 55}-worker-0', made from it, has 64 characters; 63 are allowed"),
        ("with.dots", "'with.dots-worker-0', made from it, is not a DNS label"),
        ("0day", "'0day-worker-0', made from it, is not a DNS label"),
        ("Upper", "'Upper-worker-0', made from it, is not a DNS label"),
    ],
)
def test_a_name_is_judged_by_the_longest_name_made_from_it(name: str, message: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        parse.parse_job(tfjob({"tfReplicaSpecs": {"Worker": {"template": pod()}}}, name))

    assert str(refused.value) == f"metadata.name: {message}"


def test_a_name_that_just_fits_is_accepted() -> None:
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 10, "template": pod()}}}
    assert parse.parse_job(tfjob(spec, "x" * 54)).total == 10

    spec["tfReplicaSpecs"]["Worker"]["replicas"] = 11
    with pytest.raises(InvalidJob, match="worker-10"):
        parse.parse_job(tfjob(spec, "x" * 54))


def test_reading_changes_nothing_of_the_manifest() -> None:
    for text in (WORKSHOP, ARRAY):
        raw = yaml.safe_load(text)
        raw["spec"]["schedulerName"] = "volcano"
        before = copy.deepcopy(raw)
        parse.parse_job(raw)
        assert raw == before


def test_another_kind_is_refused() -> None:
    with pytest.raises(InvalidJob, match="'Deployment' is not a job"):
        parse.parse_job({"kind": "Deployment"})


@pytest.mark.parametrize("written", ["tfReplicaSpec", "tfreplicaspec", "tfReplicas", "ReplicaSpec"])
def test_a_field_that_is_almost_right_is_named(written: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        parse.parse_job(tfjob({written: {"Worker": {"template": pod()}}}))

    assert refused.value.hint == f"write tfReplicaSpecs instead of {written}"


@pytest.mark.parametrize("count", [10_000, 2_000_000_000])
def test_a_job_of_more_members_than_anybody_could_want_is_refused_at_once(count: int) -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    roles = {"PS": {"template": template}, "Worker": {"replicas": count, "template": template}}
    raw = {"kind": "TFJob", "metadata": {"name": "j"}, "spec": {"tfReplicaSpecs": roles}}

    with pytest.raises(InvalidJob) as refused:
        parse.parse_job(raw)

    assert refused.value.field == "spec.tfReplicaSpecs.Worker.replicas"
    assert "at most 10000" in refused.value.hint


ONE: Raw = {"Worker": {"template": pod()}}
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
def test_policies_that_make_no_sense_are_refused(spec: Raw, message: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        parse.parse_job(tfjob({"tfReplicaSpecs": ONE, **spec}))

    assert str(refused.value).startswith(message)
    assert refused.value.hint


def test_a_port_of_the_first_version_is_a_port() -> None:
    row = {"tfReplicaType": "WORKER", "tfPort": 70000, "template": pod()}
    with pytest.raises(InvalidJob, match="tfPort: is 70000"):
        parse.parse_job(tfjob({"replicaSpecs": [row]}))


def test_a_deadline_may_be_longer_than_68_years() -> None:
    job = parse.parse_job(tfjob({"tfReplicaSpecs": ONE, "activeDeadlineSeconds": 2**40}))
    assert job.policy.active_deadline == 2**40


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
def test_a_single_mpi_template_that_makes_no_sense_is_refused(
    spec: Raw, inside: Raw, container: Raw, field: str
) -> None:
    containers = [{"name": "mpi", "image": "i", **container}]
    template = {"spec": {"containers": containers, **inside}}
    raw = {**tfjob({"gpus": 4, "template": template, **spec}), "kind": "MPIJob"}

    with pytest.raises(InvalidJob) as refused:
        parse.parse_job(raw)
    assert refused.value.field == f"spec.template.spec.{field}"


@pytest.mark.parametrize(
    ("field", "value"),
    [("launcherCreationPolicy", "Soon"), ("launcherOnMaster", "false"), ("mountsOnLauncher", 1)],
)
def test_what_an_mpi_job_says_of_its_launcher_must_make_sense(field: str, value: object) -> None:
    spec = {"replicas": 1, "template": MPI_POD, field: value}
    with pytest.raises(InvalidJob) as refused:
        parse.parse_job({**tfjob(spec), "kind": "MPIJob"})

    assert refused.value.field == f"spec.{field}"


def test_an_autoscaler_that_nobody_makes_is_warned_about() -> None:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}
    spec = {
        "pytorchReplicaSpecs": {"Worker": {"template": template}},
        "elasticPolicy": {"metrics": [{"type": "Resource"}]},
    }
    job = parse.parse_job({**tfjob(spec), "kind": "PyTorchJob"})

    assert [reason for reason, _ in job.warnings] == ["ElasticMetricsIgnored"]
