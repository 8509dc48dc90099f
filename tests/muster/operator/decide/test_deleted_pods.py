"""Pods that are asked to stop: their exit code tells nothing about the job."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.meta import Raw, timestamp
from tests.muster.operator.builders import NOW, Model, manifest, replica

NOTICE = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": timestamp(NOW)}


def running(kind: str = "TFJob", roles: Raw | None = None, **spec: Any) -> Model:
    model = Model(manifest(kind, roles or {"Worker": replica(2, "OnFailure")}, **spec))
    model.settle()
    model.run()
    model.settle()
    assert model.conditions() == ["Created", "Running"]
    return model


ALONE = [
    ("TFJob", "tensorflow", "Worker", {}),
    ("TFJob", "tensorflow", "Chief", {}),
    ("TFJob", "tensorflow", "PS", {}),
    ("TFJob", "tensorflow", "Worker", {"successPolicy": "AllWorkers"}),
    ("PyTorchJob", "pytorch", "Master", {}),
    ("PyTorchJob", "pytorch", "Worker", {}),
    ("PyTorchJob", "pytorch", "Worker", {"elasticPolicy": {"minReplicas": 1}}),
    ("JAXJob", "jax", "Worker", {}),
]


@pytest.mark.parametrize(("kind", "container", "role", "spec"), ALONE)
def test_a_pod_that_exits_0_after_it_was_asked_to_stop_is_not_a_success(
    kind: str, container: str, role: str, spec: Raw
) -> None:
    model = running(kind, {role: replica(1, "Never", container)}, **spec)
    name = f"j-{role.lower()}-0"
    before = model.pods[name].metadata.uid
    model.later(100)

    model.request_deletion(name)
    model.exit(name, 0, container)
    model.step()
    assert "Succeeded" not in model.conditions()
    assert not {"active", "succeeded"} & set(model.status["replicaStatuses"][role])
    model.settle()

    assert model.pods[name].metadata.uid != before
    assert model.pods[name].status.phase == "Pending"
    assert "restarts" not in model.status


@pytest.mark.parametrize(("ended", "succeeds"), [(-5, True), (-1, True), (0, False), (3, False)])
def test_a_pod_that_ended_before_it_was_asked_to_stop_has_succeeded(
    ended: int, *, succeeds: bool
) -> None:
    model = running()
    model.later(ended)
    model.exit("j-worker-0", 0)
    model.later(-ended)

    model.request_deletion("j-worker-0", grace=60)
    model.settle()

    assert (model.conditions()[-1] == "Succeeded") is succeeds


def test_an_end_without_a_time_counts_as_caused_by_the_deletion() -> None:
    model = running()
    model.request_deletion("j-worker-0")
    model.pod("j-worker-0", phase="Succeeded")
    model.settle()

    assert "Succeeded" not in model.conditions()
    assert model.pods["j-worker-0"].status.phase == "Pending"


def test_a_pod_that_exits_after_a_disruption_notice_is_replaced_without_a_deletion() -> None:
    model = running(runPolicy={"backoffLimit": 0})
    model.later(2)
    end = {"terminated": {"exitCode": 0, "finishedAt": timestamp(model.now)}}
    row = {"name": "tensorflow", "state": end}
    model.pod("j-worker-0", phase="Succeeded", conditions=[NOTICE], containerStatuses=[row])
    model.settle()

    assert model.conditions()[-1] == "Restarting"
    assert model.pods["j-worker-0"].status.phase == "Pending"
    assert "restarts" not in model.status


def test_a_disruption_notice_after_the_end_does_not_undo_success() -> None:
    model = running()
    model.later(-2)
    end = {"terminated": {"exitCode": 0, "finishedAt": timestamp(model.now)}}
    row = {"name": "tensorflow", "state": end}
    model.pod("j-worker-0", phase="Succeeded", conditions=[NOTICE], containerStatuses=[row])
    model.settle()

    assert model.conditions()[-1] == "Succeeded"


def test_a_job_resumed_while_its_pods_terminate_gets_new_pods() -> None:
    model = running(roles={"Chief": replica(1), "Worker": replica(1)})
    model.edit(runPolicy={"suspend": True})
    model.step()
    model.later(1)
    model.edit(runPolicy={"suspend": False})
    model.step()
    model.later(2)
    model.exit("j-chief-0", 0)
    model.exit("j-worker-0", 0)
    model.settle()

    assert "Succeeded" not in model.conditions()
    assert {pod.status.phase for pod in model.pods.values()} == {"Pending"}


MPIRUN = ["mpirun", "python", "train.py"]


def mpi_job(command: list[str] = MPIRUN) -> tuple[Model, str]:
    """A running MPIJob of two workers, started a while ago, and the name of its launcher."""
    launcher = replica(1, "Never", "mpi")
    launcher["template"]["spec"]["containers"][0]["command"] = command
    model = Model(manifest("MPIJob", {"Launcher": launcher, "Worker": replica(2, "Never", "mpi")}))
    for _ in range(2):
        model.settle()
        model.run()
    model.settle()
    model.later(100)
    return model, next(name for name in model.pods if "launcher" in name)


def lose(model: Model, name: str) -> None:
    """Delete a pod at once, and let the operator create its replacement."""
    del model.pods[name]
    model.settle()
    model.run(name)


@pytest.mark.parametrize("code", [0, 1])
def test_a_launcher_that_ends_after_a_worker_was_deleted_runs_again(code: int) -> None:
    model, launcher = mpi_job()
    lose(model, "j-worker-1")
    model.later(2)

    model.exit(launcher, code, "mpi")  # mpirun of Open MPI 5 mostly exits 0
    model.settle()

    assert not {"Succeeded", "Failed"} & set(model.conditions())
    restart = model.status["restart"]
    assert (restart["code"], restart["first"]["pod"]) == ("WorkerDeleted", "j-worker-1")
    launchers = [name for name in model.pods if "launcher" in name]
    assert len(launchers) == 2
    assert "restarts" not in model.status


def test_a_launcher_whose_end_shows_after_the_lost_worker_is_replaced_has_not_succeeded() -> None:
    """Times have whole seconds: the replacement may be a second younger than the launcher's end."""
    model, launcher = mpi_job()
    lose(model, "j-worker-1")
    model.later(-1)

    model.exit(launcher, 0, "mpi")
    model.later(1)
    model.settle()

    assert "Succeeded" not in model.conditions()


def test_a_launcher_that_exits_0_while_a_worker_is_being_deleted_has_not_succeeded() -> None:
    model, launcher = mpi_job()
    model.request_deletion("j-worker-0")
    model.later(2)

    model.exit(launcher, 0, "mpi")
    model.settle()

    assert "Succeeded" not in model.conditions()


@pytest.mark.parametrize("command", [["horovodrun", "-np", "2"], ["sh", "-c", "x --elastic"]])
def test_an_elastic_launcher_succeeds_without_the_deleted_worker(command: list[str]) -> None:
    model, launcher = mpi_job(command)
    lose(model, "j-worker-1")
    model.later(2)

    model.exit(launcher, 0, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Succeeded"


def test_a_launcher_that_ran_on_after_a_worker_was_deleted_has_succeeded() -> None:
    model, launcher = mpi_job()
    lose(model, "j-worker-1")
    model.later(600)

    model.exit(launcher, 0, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Succeeded"


def test_workers_that_are_gone_when_an_operator_finds_a_launcher_long_ended_do_not_matter() -> None:
    model, launcher = mpi_job()
    model.exit(launcher, 0, "mpi")
    model.later(600)
    del model.pods["j-worker-0"]

    model.settle()

    assert model.conditions()[-1] == "Succeeded"


def scale(model: Model, workers: int) -> None:
    roles = model.raw["spec"]["mpiReplicaSpecs"]
    model.edit(mpiReplicaSpecs={**roles, "Worker": {**roles["Worker"], "replicas": workers}})
    model.settle()
    model.run(*(name for name, pod in model.pods.items() if pod.status.phase == "Pending"))
    model.settle()


def test_a_launcher_that_ends_soon_after_workers_were_added_has_succeeded() -> None:
    model, launcher = mpi_job()
    scale(model, 4)
    model.later(2)

    model.exit(launcher, 0, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Succeeded"


def test_an_added_worker_that_does_not_exist_yet_when_the_launcher_ends_is_not_lost() -> None:
    model, launcher = mpi_job()
    roles = model.raw["spec"]["mpiReplicaSpecs"]
    model.edit(mpiReplicaSpecs={**roles, "Worker": {**roles["Worker"], "replicas": 3}})
    model.exit(launcher, 0, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Succeeded"


def test_an_added_worker_that_is_deleted_was_no_host_of_the_launcher() -> None:
    model, launcher = mpi_job()
    scale(model, 3)
    lose(model, "j-worker-2")
    model.later(2)

    model.exit(launcher, 0, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Succeeded"


def test_a_first_worker_that_is_deleted_after_others_were_added_is_lost() -> None:
    model, launcher = mpi_job()
    scale(model, 3)
    lose(model, "j-worker-1")
    model.later(2)

    model.exit(launcher, 0, "mpi")
    model.settle()

    assert "Succeeded" not in model.conditions()


def test_a_launcher_that_restarted_in_place_uses_the_workers_added_before() -> None:
    model, launcher = mpi_job()
    scale(model, 3)
    model.later(100)
    row = {"name": "mpi", "restartCount": 1, "state": {"running": {}}}
    model.pod(launcher, phase="Running", containerStatuses=[row])
    model.settle()
    lose(model, "j-worker-2")
    model.later(2)

    model.exit(launcher, 0, "mpi", restarts=1)
    model.settle()

    assert "Succeeded" not in model.conditions()
