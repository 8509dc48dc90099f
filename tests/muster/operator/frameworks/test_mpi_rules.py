"""MPIJobs of v1 follow training-operator, all other versions follow mpi-operator."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Raw
from tests.muster.operator.builders import Model, env
from tests.muster.operator.frameworks.mpi_jobs import LAUNCHER, WORKERS, job, single

FORMER_LAUNCHER = "j-launcher"
SSH = {"sshAuthMountPath": "/root/.ssh"}
OF_V1ALPHA2 = {"backoffLimit": 6}  # the default that the CRD writes


def running(raw: Raw) -> Model:
    model = Model(raw)
    for _ in range(2):
        model.settle()
        model.run(*model.pods)
    model.settle()
    assert model.conditions() == ["Created", "Running"]
    return model


def restart(model: Model, restarts: int) -> None:
    """Let the node restart the launcher's container once more."""
    row: Raw = {"name": "mpi", "restartCount": restarts, "state": {"running": {}}}
    row["lastState"] = {"terminated": {"exitCode": 1}}
    model.pod(LAUNCHER, phase="Running", containerStatuses=[row])
    model.settle()


def with_policy(raw: Raw, restart_policy: str) -> Raw:
    raw["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = restart_policy
    return raw


@pytest.mark.parametrize("code", [0, 1])
def test_the_policy_all_deletes_the_launcher_of_v1_too(code: int) -> None:
    model = running(job(runPolicy={"cleanPodPolicy": "All"}))
    model.exit(LAUNCHER, code, "mpi")
    model.settle()

    assert model.pods == {}
    ending = "failed" if code else "succeeded"
    assert model.status["replicaStatuses"]["Launcher"] == {ending: 1}


def test_the_policy_all_deletes_earlier_launchers_too() -> None:
    model = running(job(runPolicy={"cleanPodPolicy": "All", "backoffLimit": 1}))
    model.exit(LAUNCHER, 1, "mpi")
    model.settle()
    second = next(name for name in model.pods if name not in (LAUNCHER, *WORKERS))
    model.exit(second, 0, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Succeeded"
    assert model.pods == {}


@pytest.mark.parametrize("spec", [SSH, OF_V1ALPHA2])
def test_the_policy_all_keeps_the_launcher_that_mpi_operator_runs_as_a_job(spec: Raw) -> None:
    model = running(job(**spec, runPolicy={"cleanPodPolicy": "All"}))
    model.exit(LAUNCHER, 0, "mpi")
    model.settle()

    assert list(model.pods) == [LAUNCHER]


@pytest.mark.parametrize("policy", ["Running", "None"])
def test_other_policies_keep_a_finished_launcher(policy: str) -> None:
    model = running(job(runPolicy={"cleanPodPolicy": policy}))
    model.exit(LAUNCHER, 0, "mpi")
    model.settle()

    assert LAUNCHER in model.pods


@pytest.mark.parametrize(
    ("spec", "limit", "last"),
    [({}, 2, 2), ({}, 1, 1), ({}, 0, 1), (SSH, 2, 3), (SSH, 1, 2), (SSH, 0, 1)],
)
def test_restarts_of_the_launcher_in_place_count_for_the_backoff_limit(
    spec: Raw, limit: int, last: int
) -> None:
    """In v1 the restart that reaches the limit fails the job; a batch Job may restart so often."""
    raw = with_policy(job(**spec, runPolicy={"backoffLimit": limit}), "OnFailure")
    model = running(raw)
    for restarts in range(1, last + 1):
        assert model.conditions()[-1] == "Running"
        restart(model, restarts)

    assert model.conditions()[-1] == "Failed"
    assert model.status["failure"]["code"] == "BackoffLimitExceeded"


def test_the_backoff_limit_of_a_launcher_that_does_not_restart_in_place_is_its_retries() -> None:
    model = running(with_policy(job(runPolicy={"backoffLimit": 1}), "Never"))
    model.exit(LAUNCHER, 1, "mpi")
    model.settle()
    assert "Failed" not in model.conditions()

    second = next(name for name in model.pods if name not in (LAUNCHER, *WORKERS))
    model.exit(second, 1, "mpi")
    model.settle()
    assert model.conditions()[-1] == "Failed"


def with_gpus(raw: Raw, resource: str = "nvidia.com/gpu") -> Raw:
    container = raw["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {resource: 1}}
    return raw


def files(model: Model) -> dict[str, Any]:
    data: dict[str, Any] = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    return data


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "aliyun.com/gpu-mem"])
def test_a_launcher_with_gpus_is_the_first_host_of_v1(resource: str) -> None:
    model = running(with_gpus(job(slotsPerWorker=2), resource))

    hosts = ["j-launcher", *WORKERS]
    assert files(model)["hostfile"] == "".join(f"{host} slots=2\n" for host in hosts)
    assert files(model)["discover_hosts.sh"].splitlines()[1:] == [
        f"echo {host}:2" for host in hosts
    ]
    # By this name mpirun knows that the first host is its own.
    assert model.manifests[LAUNCHER]["spec"]["hostname"] == "j-launcher"
    assert "NVIDIA_VISIBLE_DEVICES" not in env(model.manifests[LAUNCHER], "mpi")


@pytest.mark.parametrize(
    "raw",
    [
        job(),
        with_gpus(job(**SSH)),
        with_gpus(job(**OF_V1ALPHA2)),
        single(launcherResources={"limits": {"nvidia.com/gpu": 1}}),
    ],
)
def test_other_launchers_are_no_host(raw: Raw) -> None:
    model = running(raw)

    assert "launcher" not in files(model)["hostfile"] + files(model)["discover_hosts.sh"]
    assert model.manifests[LAUNCHER]["spec"].get("hostname", LAUNCHER) == LAUNCHER


def started_by_training_operator(**policy: Any) -> Model:
    """A running job whose launcher has the name that training-operator gives it."""
    model = running(job(runPolicy=policy))
    pod = model.pods.pop(LAUNCHER)
    metadata = msgspec.structs.replace(pod.metadata, name=FORMER_LAUNCHER)
    model.pods[FORMER_LAUNCHER] = msgspec.structs.replace(pod, metadata=metadata)
    return model


def test_the_running_launcher_of_training_operator_is_kept() -> None:
    model = started_by_training_operator()
    model.settle()

    assert sorted(model.pods) == [FORMER_LAUNCHER, *WORKERS]
    assert model.conditions() == ["Created", "Running"]
    model.exit(FORMER_LAUNCHER, 0, "mpi")
    model.settle()
    assert model.conditions()[-1] == "Succeeded"


def test_the_next_attempt_after_a_launcher_of_training_operator_is_one_of_ours() -> None:
    model = started_by_training_operator(backoffLimit=1)
    model.exit(FORMER_LAUNCHER, 1, "mpi")
    model.settle()

    (second,) = set(model.pods) - {FORMER_LAUNCHER, *WORKERS}
    assert second.startswith("j-launcher-")
    model.exit(second, 0, "mpi")
    model.settle()
    assert model.conditions()[-1] == "Succeeded"


def test_a_launcher_of_training_operator_that_is_deleted_is_replaced_by_one_of_ours() -> None:
    model = started_by_training_operator()
    del model.pods[FORMER_LAUNCHER]
    model.settle()

    assert sorted(model.pods) == sorted([LAUNCHER, *WORKERS])
