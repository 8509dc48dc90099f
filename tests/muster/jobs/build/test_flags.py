"""Every flag of `arena submit tf` has an effect on the manifest; an invalid value is rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kubekit.errors import UsageError
from kubekit.objects.meta import Raw
from muster.jobs.build.flags import Jax, Mpi, PyTorch, Submission, TensorFlow
from muster.jobs.build.job_manifest import bundle
from muster.jobs.build.roles import flags_without_effect

RACK = "example.com/rack"


def built(**flags: Any) -> Raw:
    args = {"name": "j", "command": ("python", "t.py"), "image": "i"} | flags
    return bundle(TensorFlow(**args)).job


def role(job: Raw, name: str) -> Raw:
    replica: Raw = job["spec"]["tfReplicaSpecs"][name]
    return replica


def pod(job: Raw, name: str = "Worker") -> Raw:
    spec: Raw = role(job, name)["template"]["spec"]
    return spec


def main(job: Raw, name: str = "Worker") -> Raw:
    container: Raw = pod(job, name)["containers"][0]
    return container


def test_the_words_of_the_command_are_joined_and_run_by_the_shell() -> None:
    job = built(workers=2, shell="bash", command=("python", "t.py", "--x 'a b'"))

    assert main(job)["command"] == ["bash", "-c", "exec python t.py --x 'a b'"]


def test_every_container_asks_for_the_end_of_its_log_in_the_status_of_its_pod() -> None:
    job = built(workers=1, ps=1, sync_mode="git", sync_source="https://host/team/project.git")

    policies = {
        container["terminationMessagePolicy"]
        for name in ("Worker", "PS")
        for container in (*pod(job, name)["initContainers"], *pod(job, name)["containers"])
    }
    assert policies == {"FallbackToLogsOnError"}


def test_workers_and_parameter_servers_get_their_own_images_counts_and_ports() -> None:
    job = built(workers=2, ps=1, worker_image="w", ps_image="p")

    assert (role(job, "Worker")["replicas"], role(job, "PS")["replicas"]) == (2, 1)
    assert (main(job)["image"], main(job, "PS")["image"]) == ("w", "p")
    assert main(job)["ports"] == [{"name": "tfjob-port", "containerPort": 22222}]
    assert main(job, "PS")["ports"] == [{"name": "tfjob-port", "containerPort": 22223}]


def test_gpus_are_for_workers_and_not_for_parameter_servers() -> None:
    job = built(workers=2, ps=1, gpus=2)

    assert main(job)["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert "resources" not in main(job, "PS")


def test_a_job_of_one_process_is_its_own_chief() -> None:
    assert list(built()["spec"]["tfReplicaSpecs"]) == ["Chief"]


def test_a_single_process_gets_the_resources_of_a_worker() -> None:
    flags = {"worker_cpu": "2", "worker_memory": "1Gi", "worker_selector": ("a=b",)}
    job = built(**flags)

    assert main(job, "Chief")["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert pod(job, "Chief")["nodeSelector"] == {"a": "b"}
    assert main(built(**flags, chief_cpu="3"), "Chief")["resources"]["limits"]["cpu"] == "3"


def test_cpu_and_memory_are_for_every_role_without_a_flag_of_its_own() -> None:
    job = built(workers=2, ps=1, evaluator=True, cpu="2", memory="4Gi", ps_cpu="1",
                evaluator_memory_limit="8Gi")  # fmt: skip

    both = {"cpu": "2", "memory": "4Gi"}
    assert main(job)["resources"] == {"requests": both, "limits": both}
    assert main(job, "PS")["resources"]["limits"] == {"cpu": "1", "memory": "4Gi"}
    assert main(job, "Evaluator")["resources"]["requests"] == both
    assert main(job, "Evaluator")["resources"]["limits"] == {"cpu": "2", "memory": "8Gi"}


def test_a_single_process_prefers_the_resources_of_its_roles() -> None:
    resources = main(built(cpu="2", memory="4Gi", worker_cpu="3"), "Chief")["resources"]

    assert resources["requests"] == {"cpu": "3", "memory": "4Gi"}


def test_flags_for_missing_roles_are_reported() -> None:
    several = TensorFlow(
        name="j", command=("x",), image="i", workers=2, ps_cpu="1", chief_port=1, worker_cpu="1"
    )
    alone = TensorFlow(name="j", command=("x",), image="i", worker_cpu="1", evaluator_memory="1Gi")

    problem = "has no effect: the job has no such role"
    assert flags_without_effect(several) == [f"--chief-port {problem}", f"--ps-cpu {problem}"]
    assert flags_without_effect(alone) == [f"--evaluator-memory {problem}"]


def test_flags_for_a_missing_tensorboard_are_reported() -> None:
    flags: dict[str, Any] = {
        "name": "j", "command": ("x",), "image": "i", "logdir": "/l", "tensorboard_image": "t"
    }  # fmt: skip

    assert flags_without_effect(TensorFlow(**flags)) == [
        "--logdir has no effect without --tensorboard",
        "--tensorboard-image has no effect without --tensorboard",
    ]
    assert flags_without_effect(TensorFlow(**flags, tensorboard=True)) == []


def test_an_explicit_chief_does_not_lose_the_one_worker() -> None:
    assert list(built(chief=True, workers=1)["spec"]["tfReplicaSpecs"]) == ["Worker", "Chief"]


def test_gang_marks_the_job_and_labels_every_pod_with_the_number_of_members() -> None:
    job = built(gang=True, workers=2, ps=1, chief=True, evaluator=True)

    assert job["metadata"]["annotations"]["muster.dev/gang"] == "true"
    for name in ("PS", "Worker", "Chief", "Evaluator"):
        labels = role(job, name)["template"]["metadata"]["labels"]
        assert labels["pod-group.scheduling.sigs.k8s.io/name"] == "tfjob-j"
        assert labels["pod-group.scheduling.sigs.k8s.io/min-available"] == "5"


@pytest.mark.parametrize(("gang", "word"), [(False, "false"), (None, "auto")])
def test_a_job_without_gang_says_whether_the_user_or_the_cluster_decides(
    gang: bool | None, word: str
) -> None:
    job = built(workers=2, gang=gang)

    assert job["metadata"]["annotations"]["muster.dev/gang"] == word
    labels = role(job, "Worker")["template"]["metadata"]["labels"]
    assert "pod-group.scheduling.sigs.k8s.io/name" not in labels


@pytest.mark.parametrize("value", ['{"a": "b, c"}', "x=y=z", "a # b", "two\nlines", "", "'\""])
def test_the_value_of_a_variable_is_literal(value: str) -> None:
    env = main(built(workers=2, env=(f"K={value}",)))["env"]

    assert {"name": "K", "value": value} in env


def test_workers_and_gpus_are_variables_and_names_are_sorted() -> None:
    names = [e["name"] for e in main(built(workers=3, gpus=1, env=("Z=1", "A=2")))["env"]]

    assert names == ["A", "Z", "gpus", "workers"]


@pytest.mark.parametrize(
    ("flags", "path", "expected"),
    [
        ({"working_dir": "/w"}, "workingDir", "/w"),
        ({"image_pull_policy": "Never"}, "imagePullPolicy", "Never"),
        ({"worker_cpu": "2"}, "resources.requests.cpu", "2"),
        ({"worker_cpu": "2", "worker_cpu_limit": "4"}, "resources.limits.cpu", "4"),
        ({"worker_memory": "1Gi"}, "resources.limits.memory", "1Gi"),
        ({"device": ("amd.com/gpu=1",)}, "resources.limits", {"amd.com/gpu": "1"}),
        ({"rdma": True}, "resources.limits", {"rdma/hca": "1"}),
        ({"rdma": True}, "securityContext.capabilities.add", ["IPC_LOCK"]),
    ],
)
def test_flags_reach_the_container(flags: Raw, path: str, expected: object) -> None:
    found: Any = main(built(workers=2, **flags))
    for part in path.split("."):
        found = found[part]

    assert found == expected


@pytest.mark.parametrize(
    ("flags", "key", "expected"),
    [
        ({"selector": ("a=b",)}, "nodeSelector", {"a": "b"}),
        ({"selector": ("a=b",), "worker_selector": ("c=d",)}, "nodeSelector", {"c": "d"}),
        ({"toleration": ("all",)}, "tolerations", [{"operator": "Exists"}]),
        (
            {"toleration": ("k=v:NoSchedule,Equal",)},
            "tolerations",
            [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
        ),
        ({"priority": "high"}, "priorityClassName", "high"),
        ({"scheduler": "volcano"}, "schedulerName", "volcano"),
        ({"host_network": True}, "dnsPolicy", "ClusterFirstWithHostNet"),
        ({"host_ipc": True}, "hostIPC", True),
        ({"host_pid": True}, "hostPID", True),
        ({"image_pull_secret": ("s",)}, "imagePullSecrets", [{"name": "s"}]),
    ],
)
def test_flags_reach_the_pod(flags: Raw, key: str, expected: object) -> None:
    assert pod(built(workers=2, **flags))[key] == expected


def test_claims_host_directories_and_shared_memory_are_mounted() -> None:
    job = built(
        workers=2, data=("claim:/data",), data_dir=("/host:/in", "/same"), share_memory="1Gi"
    )

    mounts = {m["name"]: m["mountPath"] for m in main(job)["volumeMounts"]}
    assert mounts == {
        "claim": "/data",
        "training-data-0": "/in",
        "training-data-1": "/same",
        "dshm": "/dev/shm",
    }
    assert pod(job)["volumes"][-1]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}


@pytest.mark.parametrize(
    ("flags", "policy"),
    [
        ({}, {"cleanPodPolicy": "Running"}),
        ({"clean_task_policy": "All"}, {"cleanPodPolicy": "All"}),
        (
            {"running_timeout": "1h30m"},
            {"cleanPodPolicy": "Running", "activeDeadlineSeconds": 5400},
        ),
        (
            {"ttl_after_finished": "90s"},
            {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 90},
        ),
        ({"retry": 3}, {"cleanPodPolicy": "Running", "backoffLimit": 3}),
    ],
)
def test_flags_reach_the_run_policy(flags: Raw, policy: Raw) -> None:
    assert built(workers=2, **flags)["spec"]["runPolicy"] == policy


@pytest.mark.parametrize("kind", [TensorFlow, Mpi, PyTorch, Jax])
def test_a_submitted_job_keeps_the_pods_that_ran_to_their_end(kind: type[Submission]) -> None:
    """The log of an MPI job is that of its launcher; with the policy All, it ends with the job."""
    job = bundle(kind(name="j", command=("python", "t.py"), image="i", workers=2)).job

    assert job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"


ALONE: Raw = {"restart": "replica"}


@pytest.mark.parametrize(
    ("kind", "flags", "scope"),
    [
        (PyTorch, {}, "gang"),
        (Jax, {}, "gang"),
        (Mpi, {}, "gang"),
        (TensorFlow, {}, "gang"),
        (TensorFlow, {"chief": True, "workers": 1}, "gang"),
        (TensorFlow, {"evaluator": True}, "gang"),
        (TensorFlow, {"ps": 1}, None),
        (TensorFlow, {"ps": 1, "restart": "gang"}, "gang"),
        (TensorFlow, {"evaluator": True, "workers": 1}, None),
        (PyTorch, {"workers": 1}, None),
        (Jax, {"workers": 1}, None),
        (Jax, {"workers": 1, **ALONE}, "replica"),
        (PyTorch, ALONE, "replica"),
        (PyTorch, {"restart": "Gang"}, "gang"),
        (PyTorch, {"annotation": ("muster.dev/restart=replica",)}, "replica"),
        (PyTorch, {"gang": False}, "gang"),
        (PyTorch, {"command": ("torchrun --nnodes=1:3 t.py",)}, None),
        (PyTorch, {"command": ("torchrun", "--nnodes", "1:3", "t.py")}, None),
        (PyTorch, {"command": ("torchrun --nnodes=2 --rdzv-endpoint=h:1 t.py",)}, "gang"),
        (Mpi, {"command": ("horovodrun -np 2 python t.py",)}, "gang"),
        (Mpi, {"command": ("horovodrun --host-discovery-script ./hosts t.py",)}, None),
    ],
)
def test_replicas_that_die_together_restart_together(
    kind: type[Submission], flags: Raw, scope: str | None
) -> None:
    args: Raw = {"name": "j", "command": ("t",), "image": "i", "workers": 3} | flags
    job = bundle(kind(**args)).job

    assert job["metadata"]["annotations"].get("muster.dev/restart") == scope


@pytest.mark.parametrize(
    ("kind", "flags"), [(PyTorch, {}), (TensorFlow, {"chief": True, "evaluator": True})]
)
def test_without_retry_no_replica_of_a_gang_restarts_alone(
    kind: type[Submission], flags: Raw
) -> None:
    def policies(**more: Any) -> set[str]:
        args: Raw = {"name": "j", "command": ("t",), "image": "i", "workers": 3} | flags | more
        spec = bundle(kind(**args)).job["spec"][kind.job_kind.replicas_field]
        return {row["restartPolicy"] for row in spec.values()}

    assert policies() == {"Never"}
    assert policies(retry=2) == {"OnFailure"}
    assert policies(**ALONE) == {"Never", "OnFailure"}


def test_retry_restarts_every_role_and_without_it_none() -> None:
    roles = {"workers": 2, "ps": 1, "chief": True, "evaluator": True}

    def policies(**flags: Any) -> set[str]:
        job = built(**roles, **flags)
        return {spec["restartPolicy"] for spec in job["spec"]["tfReplicaSpecs"].values()}

    assert policies(retry=2) == {"OnFailure"}
    assert role(built(workers=2), "Worker")["restartPolicy"] == "Never"
    assert role(built(**roles), "Worker")["restartPolicy"] == "OnFailure"


def test_labels_and_annotations_reach_the_job_and_its_pods() -> None:
    job = built(workers=2, label=("a=1",), annotation=("b=2",))

    for metadata in (job["metadata"], role(job, "Worker")["template"]["metadata"]):
        assert metadata["labels"]["a"] == "1"
        assert metadata["annotations"]["b"] == "2"


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("topology", {"topology": RACK}),
        ("topology", {"annotation": (f"muster.dev/topology={RACK}",)}),
        ("topology-preferred", {"annotation": (f"muster.dev/topology-preferred={RACK}",)}),
    ],
)
def test_replicas_that_share_a_domain_are_a_gang(name: str, flags: dict[str, Any]) -> None:
    job = built(workers=2, **flags)

    for metadata in (job["metadata"], role(job, "Worker")["template"]["metadata"]):
        assert metadata["annotations"][f"muster.dev/{name}"] == RACK
    assert job["metadata"]["annotations"]["muster.dev/gang"] == "true"
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 2}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"name": "Bad_Name"}, "--name 'Bad_Name' is not a job name"),
        ({"name": "x" * 50}, "is not a job name"),
        ({"name": "1abc"}, "is not a job name"),
        ({"image": ""}, "--image or --worker-image must be set"),
        ({"image": "", "worker_image": "w", "ps": 1}, "--image or --ps-image must be set"),
        ({"gpus": -1}, "--gpus is invalid"),
        ({"workers": 0}, "--workers must be at least 1"),
        ({"env": ("NOEQUALS",)}, "--env 'NOEQUALS' is invalid"),
        ({"label": ("=v",)}, "--label '=v' is invalid"),
        ({"selector": ("x",)}, "--selector 'x' is invalid"),
        ({"topology": "rack=r1"}, "--topology 'rack=r1' is invalid"),
        ({"topology": "rack,"}, "--topology 'rack,' is invalid"),
        ({"topology": ",".join("abcdefghijklmnopq")}, "is invalid"),
        (
            {"annotation": ("muster.dev/topology=rack=r1",)},
            "--annotation=muster.dev/topology 'rack=r1' is invalid",
        ),
        ({"toleration": ("gpu_node",)}, "--toleration 'gpu_node' is invalid"),
        ({"data": ("claim",)}, "--data 'claim' is invalid"),
        ({"data": ("claim:/",)}, "--data 'claim:/' is invalid"),
        ({"data": ("c:/a", "c:/b")}, "--data names the claim c twice"),
        ({"data_dir": ("relative",)}, "--data-dir 'relative' is invalid"),
        ({"device": ("nvidia.com/gpu=1",)}, "please use '--gpus N' instead"),
        ({"worker_cpu": "lots"}, "--worker-cpu 'lots' is invalid"),
        ({"share_memory": "1Zi"}, "--share-memory '1Zi' is invalid"),
        ({"running_timeout": "soon"}, "--running-timeout 'soon' is invalid"),
        ({"clean_task_policy": "Some"}, "unsupported cleanTaskPolicy Some"),
        ({"success_policy": "Any"}, "unsupported successPolicy Any"),
        ({"restart": "pod"}, "--restart 'pod' is invalid"),
        (
            {"annotation": ("muster.dev/restart=all",)},
            "--annotation=muster.dev/restart 'all' is invalid",
        ),
        ({"command": ()}, "the training command is missing"),
        ({"workers": 99999999999}, "--workers '99999999999' is invalid"),
        ({"ps": 2**31}, "--ps '2147483648' is invalid"),
        ({"gpus": 10**20}, "--gpus '100000000000000000000' is invalid"),
        ({"retry": 2**31}, "--retry '2147483648' is invalid"),
        ({"worker_cpu": "1e30"}, "--worker-cpu '1e30' is invalid"),
        ({"worker_cpu": "2", "worker_cpu_limit": "1500m"}, "--worker-cpu-limit '1500m' is invalid"),
        ({"cpu": "2", "ps_cpu_limit": "1500m"}, "--ps-cpu-limit '1500m' is invalid"),
        ({"worker_memory": "200"}, "--worker-memory '200' is only 200 bytes"),
        ({"ps_memory_limit": "4m"}, "--ps-memory-limit '4m' is only 1 byte"),
        ({"share_memory": "512Ki"}, "--share-memory '512Ki' is only 524288 bytes"),
        ({"ps": 1, "ps_memory": "2Gi", "ps_memory_limit": "1G"}, "--ps-memory-limit '1G'"),
        ({"image": "a b"}, "--image 'a b' is invalid"),
        ({"worker_image": "a\nb"}, "--worker-image"),
        ({"scheduler": "a b"}, "--scheduler 'a b' is invalid"),
        ({"running_timeout": "99999999h"}, "--running-timeout '99999999h' is invalid"),
        ({"workers": 1, "worker_cpu": "abc"}, "--worker-cpu 'abc' is invalid"),
        ({"workers": 1, "worker_selector": ("x",)}, "--worker-selector 'x' is invalid"),
        ({"device": ("a.b/c=abc",)}, "--device 'a.b/c=abc' is invalid"),
        ({"device": ("a.b/c=0.5",)}, "--device 'a.b/c=0.5' is invalid"),
        ({"device": ("foo=1",)}, "--device 'foo=1' is invalid"),
    ],
)
def test_an_invalid_flag_is_rejected_in_a_sentence(flags: Raw, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        built(**({"workers": 2} | flags))

    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Training-Distributed_User1", "training-distributed-user1"),
        ("9", "job-9"),
        ("-x-", "x"),
        ("y" * 60, "y" * 49),
        ("\u00e9", "job"),
    ],
)
def test_an_invalid_name_comes_with_the_nearest_valid_one(wrong: str, right: str) -> None:
    with pytest.raises(UsageError) as refused:
        built(name=wrong)

    assert refused.value.hint.endswith(f"--name={right}")


@pytest.mark.parametrize("kind", [TensorFlow, PyTorch, Jax, Mpi])
def test_a_retry_that_allows_no_second_attempt_is_reported(kind: type[Submission]) -> None:
    once = kind(name="j", command=("x",), image="i", retry=1)

    assert len(flags_without_effect(once)) == 1
    assert (
        flags_without_effect(replace(once, retry=2))
        == flags_without_effect(replace(once, retry=0))
        == []
    )


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        ({"cpu": "abc"}, "Write --cpu=2 or --cpu=500m"),
        ({"memory": "abc"}, "Write --memory=4Gi or --memory=500Mi"),
        ({"memory": "4GB"}, "Did you mean --memory=4Gi or --memory=4G?"),
        ({"memory": "1.5 gib"}, "Did you mean --memory=1.5Gi or --memory=1.5G?"),
        ({"memory": "512kb"}, "Did you mean --memory=512Ki or --memory=512k?"),
        ({"worker_memory": "200"}, "Did you mean --worker-memory=200Mi?"),
        ({"worker_memory": "500m"}, "Did you mean --worker-memory=500Mi?"),
        ({"memory": "4"}, "Did you mean --memory=4Gi?"),
        ({"memory": "1e3"}, "Write --memory=4Gi or --memory=500Mi"),
    ],
)
def test_a_wrong_amount_gets_a_hint_for_its_flag(flags: dict[str, Any], hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        built(**flags)

    assert raised.value.hint == hint


def test_a_memory_of_zero_is_not_a_limit() -> None:
    assert main(built(memory="0"), "Chief")["resources"]["limits"] == {"memory": "0"}


def model_directory(**flags: Any) -> str | None:
    value: str | None = built(**flags)["metadata"]["annotations"].get("muster.dev/model-dir")
    return value


def test_the_job_says_where_it_exports_models() -> None:
    claim = {"data": ("models:/mnt",)}

    assert model_directory() is None
    assert model_directory(data_dir=("/srv:/in",), model_dir="/in/a/../b/") == "/in/b"
    assert model_directory(**claim, model_source="pvc://models/mnist/1") == "/mnt/mnist/1"
    assert model_directory(**claim, model_source="pvc://default/models/mnist") == "/mnt/mnist"
    assert model_directory(**claim, model_source="pvc://models/../../etc") == "/mnt/etc"
    for elsewhere in ("pvc://others/mnist", "s3://models/mnist", "models/mnist"):
        assert model_directory(**claim, model_source=elsewhere, model_name="m") is None
        with pytest.raises(UsageError, match=f"--model-source {elsewhere} is not in a claim"):
            model_directory(**claim, model_source=elsewhere)
    assert model_directory(**claim, model_source="pvc://models/x", model_dir="/mnt/y") == "/mnt/y"


@pytest.mark.parametrize("directory", ["out", "/", "/elsewhere", "/mntx", "/mnt/../etc"])
def test_a_model_directory_in_no_volume_is_rejected(directory: str) -> None:
    with pytest.raises(UsageError, match=r"--model-dir"):
        built(data=("models:/mnt",), model_dir=directory)
