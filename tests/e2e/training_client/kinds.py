"""The same methods of Kubeflow's TrainingClient for every kind of job that Muster runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.training_client.objects import SPECS, client, finish, job
from tests.waiting import until

__all__ = ["client"]
LINES = [f"line {number}" for number in range(5)]
COMMAND = ["sh", "-c", "for n in 0 1 2 3 4; do echo line $n; sleep 0.2; done"]


def test_a_tensorflow_job(client: Any) -> None:
    follow_through(client, job("TFJob", "tf-life", {"Worker": 2}, COMMAND), "tf-life-worker-0")


def test_a_pytorch_job(client: Any) -> None:
    roles = {"Master": 1, "Worker": 1}
    follow_through(client, job("PyTorchJob", "torch-life", roles, COMMAND), "torch-life-master-0")


def test_a_jax_job(client: Any) -> None:
    follow_through(client, job("JAXJob", "jax-life", {"Worker": 2}, COMMAND), "jax-life-worker-0")


def test_an_mpi_job(client: Any) -> None:
    mpi = job("MPIJob", "mpi-life", {"Launcher": 1, "Worker": 2}, COMMAND)
    mpi.spec.mpi_replica_specs["Worker"].template.spec.containers[0].command = None
    follow_through(client, mpi, "mpi-life-launcher")


def follow_through(client: Any, new: Any, first: str) -> None:
    """Create a job that is suspended, resume it, follow its logs to the end, and delete it."""
    name, kind = new.metadata.name, new.kind
    client.job_kind = kind  # `verbose` looks for jobs of the client's own kind only
    new.spec.run_policy.suspend = True
    client.create_job(new)
    until(lambda: "Suspended" in conditions(client, name, kind), what="the job is suspended")
    assert client.get_job_pods(name) == []

    current = client.get_job(name, job_kind=kind)
    current.spec.run_policy.suspend = False
    current.metadata.resource_version = None  # the operator writes the status meanwhile
    client.update_job(current, name, job_kind=kind)
    (pod,) = until(
        lambda: [p for p in client.get_job_pods(name) if started(p, first)], what="the first pod"
    )
    role = pod.metadata.labels["training.kubeflow.org/replica-type"]  # workers of MPI never end
    logs, events = client.get_job_logs(
        name, job_kind=kind, is_master=False, replica_type=role, follow=True, verbose=True
    )

    # The client takes the ends of lines away.
    assert logs[pod.metadata.name] == "".join(LINES)
    assert any("Created" in text for text in events[f"{kind.lower()}/{name}"])
    finished = finish(client, name, kind)
    assert client.is_job_succeeded(name, job_kind=kind)
    assert client.is_job_created(job=finished, job_kind=kind)
    assert not client.is_job_running(name, job_kind=kind)
    assert not client.is_job_restarting(name, job_kind=kind)
    assert not client.is_job_failed(name, job_kind=kind)
    assert conditions(client, name, kind)[-1] == "Succeeded"
    assert name in [each.metadata.name for each in client.list_jobs(job_kind=kind)]
    assert SPECS[kind][2] in [each.name for each in pod.spec.containers]

    client.delete_job(name, job_kind=kind)
    until(lambda: name not in names(client, kind), what="the job is gone")
    with pytest.raises(RuntimeError):
        client.get_job(name, job_kind=kind)


def started(pod: Any, first: str) -> bool:
    """Whether this is the job's first pod, and has started: the client skips pending ones."""
    return bool(pod.metadata.name.startswith(first)) and pod.status.phase != "Pending"


def conditions(client: Any, name: str, kind: str) -> list[str]:
    return [row.type for row in client.get_job_conditions(name, job_kind=kind)]


def names(client: Any, kind: str) -> list[str]:
    return [each.metadata.name for each in client.list_jobs(job_kind=kind)]
