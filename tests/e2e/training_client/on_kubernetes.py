"""The objects that Muster's operator makes for jobs of Kubeflow's client, on a real API server.

No kubelet runs the pods: kwok calls them Running, and ends those that a test annotates.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.training_client.objects import client, finish, job
from tests.waiting import until

__all__ = ["client"]
COMMAND = ["python", "train.py"]


def train(parameters: dict[str, int]) -> None:
    print(parameters["steps"])


def test_a_tensorflow_job_has_its_cluster_in_its_environment(client: Any) -> None:
    client.create_job(
        name="tf",
        job_kind="TFJob",
        train_func=train,
        parameters={"steps": 3},
        num_workers=2,
        num_ps_replicas=1,
        resources_per_worker={"cpu": "1", "memory": "1Gi"},
    )

    variables = environments(client, "tf", "TFJob", "tf-ps-0", "tf-worker-0", "tf-worker-1")

    cluster = {
        "ps": ["tf-ps-0.default.svc:2222"],
        "worker": ["tf-worker-0.default.svc:2222", "tf-worker-1.default.svc:2222"],
    }
    assert json.loads(variables["tf-worker-1"]["TF_CONFIG"]) == {
        "cluster": cluster,
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    assert_lifecycle(client, "tf", "TFJob")


def test_a_pytorch_job_has_its_master_in_its_environment(client: Any) -> None:
    client.create_job(
        name="torch",
        train_func=train,
        parameters={"steps": 3},
        num_workers=2,
        num_procs_per_worker=2,
    )

    variables = environments(client, "torch", "PyTorchJob", "torch-master-0", "torch-worker-0")

    chosen = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "PET_NNODES", "PET_NODE_RANK")
    assert [variables["torch-worker-0"][name] for name in chosen] == [
        *("torch-master-0", "23456", "1", "4", "2", "1"),
    ]
    assert variables["torch-worker-0"]["PET_NPROC_PER_NODE"] == "2"
    assert_lifecycle(client, "torch", "PyTorchJob")


def test_a_jax_job_has_its_coordinator_in_its_environment(client: Any) -> None:
    client.create_job(job("JAXJob", "jax", {"Worker": 2}, COMMAND))

    variables = environments(client, "jax", "JAXJob", "jax-worker-0", "jax-worker-1")

    chosen = ("COORDINATOR_ADDRESS", "COORDINATOR_PORT", "NUM_PROCESSES", "PROCESS_ID")
    assert [variables["jax-worker-1"][name] for name in chosen] == [
        *("jax-worker-0", "6666", "2", "1"),
    ]
    assert_lifecycle(client, "jax", "JAXJob")


def test_an_mpi_job_has_its_hosts_in_a_file(client: Any) -> None:
    client.create_job(job("MPIJob", "mpi", {"Launcher": 1, "Worker": 2}, COMMAND))

    (launcher,) = until(lambda: client.get_job_pod_names("mpi", is_master=True), what="a launcher")
    variables = environments(client, "mpi", "MPIJob", launcher, "mpi-worker-0", "mpi-worker-1")

    assert variables[launcher]["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    files = client.core_api.read_namespaced_config_map("mpi-config", "default").data
    assert files["hostfile"].splitlines() == ["mpi-worker-0 slots=1", "mpi-worker-1 slots=1"]
    assert_lifecycle(client, "mpi", "MPIJob")


def test_a_job_is_suspended_by_an_update_and_deleted(client: Any) -> None:
    client.create_job(job("JAXJob", "held", {"Worker": 2}, COMMAND))
    reach(client, "held", "JAXJob", "Running")

    held = client.get_job("held", job_kind="JAXJob")
    held.spec.run_policy.suspend = True
    held.metadata.resource_version = None
    client.update_job(held, "held", job_kind="JAXJob")

    until(lambda: not client.get_job_pods("held"), what="no pods")
    assert not client.is_job_running("held", job_kind="JAXJob")
    client.delete_job("held", job_kind="JAXJob")
    assert "held" not in [each.metadata.name for each in client.list_jobs(job_kind="JAXJob")]


def test_kinds_that_muster_does_not_run_are_refused(client: Any) -> None:
    for kind in ("XGBoostJob", "PaddleJob"):
        with pytest.raises(RuntimeError, match=r"\(404\)"):
            client.create_job(job(kind, "other", {"Master": 1, "Worker": 1}, COMMAND))


def environments(client: Any, name: str, kind: str, *pods: str) -> dict[str, dict[str, str]]:
    """The variables of each pod of the job, once all run, with a service for each pod."""
    reach(client, name, kind, "Running")
    until(lambda: set(client.get_job_pod_names(name)) == set(pods), what=f"the pods {pods}")
    services = [each.metadata.name for each in services_of(client, name)]
    assert kind == "MPIJob" or sorted(services) == sorted(pods)
    return {
        pod.metadata.name: {row.name: row.value for row in pod.spec.containers[0].env or ()}
        for pod in client.get_job_pods(name)
    }


def services_of(client: Any, name: str) -> list[Any]:
    selector = f"training.kubeflow.org/job-name={name}"
    found = client.core_api.list_namespaced_service("default", label_selector=selector).items
    return list(found)


def assert_lifecycle(client: Any, name: str, kind: str) -> None:
    """Assert the conditions of a job whose pods end with code 0, and that it can be deleted."""
    ends = {"metadata": {"annotations": {"muster.dev/test-exit-code": "0"}}}
    for pod in client.get_job_pod_names(name):
        client.core_api.patch_namespaced_pod(pod, "default", ends)
    finished = finish(client, name, kind)
    conditions = [(row.type, row.status) for row in finished.status.conditions]
    assert conditions == [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
    client.delete_job(name, job_kind=kind)


def reach(client: Any, name: str, kind: str, condition: str) -> None:
    client.wait_for_job_conditions(
        name,
        job_kind=kind,
        expected_conditions={condition},
        polling_interval=0.1,
        wait_timeout=40,
    )
