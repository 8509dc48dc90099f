"""Kubeflow's TrainingClient, unchanged, and the objects and functions that tests give it.

The client sends the source of a training function to the pods, so each function imports what it
needs and its annotations use built-in names only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubeflow.training import TrainingClient, models

SPECS = {
    "TFJob": ("KubeflowOrgV1TFJob", "tf_replica_specs", "tensorflow"),
    "PyTorchJob": ("KubeflowOrgV1PyTorchJob", "pytorch_replica_specs", "pytorch"),
    "MPIJob": ("KubeflowOrgV1MPIJob", "mpi_replica_specs", "mpi"),
    "JAXJob": ("KubeflowOrgV1JAXJob", "jax_replica_specs", "jax"),
    "XGBoostJob": ("KubeflowOrgV1XGBoostJob", "xgb_replica_specs", "xgboost"),
    "PaddleJob": ("KubeflowOrgV1PaddleJob", "paddle_replica_specs", "paddle"),
}
"""By kind: the model, its field of replicas, and the name of the container that trains."""


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A TrainingClient of the cluster; its connections are closed at the end."""
    connected = TrainingClient(config_file=os.environ["MUSTER_TEST_KUBECONFIG"])
    yield connected
    transport = connected.core_api.api_client
    transport.rest_client.pool_manager.clear()
    transport.close()


def job(
    kind: str, name: str, roles: dict[str, int], command: list[str], *, restart: str | None = None
) -> Any:
    """A job as the SDK's object, with the same command in every role."""
    model, field, container = SPECS[kind]

    def template() -> Any:
        main = models.V1Container(name=container, image="python:3.12", command=command)
        return models.V1PodTemplateSpec(spec=models.V1PodSpec(containers=[main]))

    replicas = {
        role: models.KubeflowOrgV1ReplicaSpec(
            replicas=count, template=template(), restart_policy=restart
        )
        for role, count in roles.items()
    }
    spec = getattr(models, f"{model}Spec")
    return getattr(models, model)(
        api_version="kubeflow.org/v1",
        kind=kind,
        metadata=models.V1ObjectMeta(name=name),
        spec=spec(run_policy=models.KubeflowOrgV1RunPolicy(), **{field: replicas}),
    )


def host_directory(folder: Path) -> dict[str, Any]:
    """Arguments of `create_job` that mount a directory of the host at its own path."""
    source = models.V1HostPathVolumeSource(path=str(folder))
    return {
        "volumes": [models.V1Volume(name="folder", host_path=source)],
        "volume_mounts": [models.V1VolumeMount(name="folder", mount_path=str(folder))],
    }


def finish(client: Any, name: str, kind: str, timeout: int = 120) -> Any:
    """The job when it has succeeded; a failure shows its logs."""
    try:
        return client.wait_for_job_conditions(
            name, job_kind=kind, wait_timeout=timeout, polling_interval=0.2
        )
    except (RuntimeError, TimeoutError) as error:
        logs, _ = client.get_job_logs(name, job_kind=kind, is_master=False)
        text = "\n".join(f"== {pod}\n{log}" for pod, log in logs.items())
        raise AssertionError(f"{error}\n{text}") from error
