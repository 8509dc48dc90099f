"""Kubeflow's TrainingClient trains on the local cluster: TensorFlow, PyTorch, JAX and MPI.

The replicas find each other by the variables of their job: TF_CONFIG, MASTER_ADDR, the coordinator
of JAX, the list of hosts of mpirun.
"""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest

from tests.e2e.training_client.objects import client, finish, job
from tests.repository import ROOT

__all__ = ["client"]
EXAMPLES = ROOT / "examples"
STEPS = 20


def mirrored(parameters: dict[str, int]) -> None:
    """Linear regression; the workers of TF_CONFIG sum their gradients."""
    import os

    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    index = strategy.cluster_resolver.task_id
    print(f"worker {index} of {strategy.num_replicas_in_sync}", flush=True)
    rows = np.random.default_rng(index).normal(size=(100, 3)).astype("float32")
    answers = rows @ np.array([[1.0], [2.0], [3.0]], dtype="float32")
    with strategy.scope():
        summed = tf.VariableAggregation.SUM
        weights = tf.Variable(tf.zeros((3, 1)), aggregation=summed)

    def improve() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((rows @ weights - answers) ** 2) / 2
        weights.assign_sub(0.2 * tape.gradient(loss, weights))
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def advance() -> tf.Tensor:
        shares = strategy.run(improve)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

    for step in range(1, parameters["steps"] + 1):
        print(f"step {step} loss {float(advance()):.4f}", flush=True)


def distributed(parameters: dict[str, int]) -> None:
    """Linear regression; the ranks of MASTER_ADDR average their gradients."""
    import torch
    import torch.distributed as group

    group.init_process_group("gloo")
    rank, size = group.get_rank(), group.get_world_size()
    print(f"rank {rank} of {size}", flush=True)
    torch.manual_seed(rank)
    rows = torch.randn(100, 3)
    answers = rows @ torch.tensor([[1.0], [2.0], [3.0]])
    weights = torch.zeros(3, 1)
    for step in range(1, parameters["steps"] + 1):
        errors = rows @ weights - answers
        shared = torch.cat([rows.T @ errors / 100, (errors**2).mean().reshape(1, 1)]) / size
        group.all_reduce(shared)
        weights -= 0.4 * shared[:3]
        print(f"step {step} loss {shared[3].item():.4f}", flush=True)


def test_tensorflow_trains_from_a_function(client: Any) -> None:
    client.create_job(
        name="tf",
        job_kind="TFJob",
        train_func=mirrored,
        parameters={"steps": STEPS},
        num_workers=2,
        base_image="docker.io/tensorflow/tensorflow:2.9.1",
        resources_per_worker={"cpu": "1", "memory": "2Gi"},
    )

    finish(client, "tf", "TFJob")

    logs, _ = client.get_job_logs("tf", job_kind="TFJob", is_master=False)
    assert_learned(logs, {"tf-worker-0": "worker 0 of 2", "tf-worker-1": "worker 1 of 2"})


def test_pytorch_trains_from_a_function_under_torchrun(client: Any) -> None:
    if shutil.which("torchrun") is None:
        pytest.skip("no torchrun on the PATH (apt-get install python3-torch)")
    # The torchrun of Debian 12 fails with its own defaults of these two variables.
    debian = {"PET_REDIRECTS": "1", "PET_TEE": "1"}
    client.create_job(
        name="torch",
        train_func=distributed,
        parameters={"steps": STEPS},
        num_workers=2,
        num_procs_per_worker=1,
        env_vars=debian,
    )

    finish(client, "torch", "PyTorchJob")

    logs, _ = client.get_job_logs("torch", is_master=False)
    assert_learned(logs, {"torch-master-0": "rank 0 of 2", "torch-worker-0": "rank 1 of 2"})


def test_jax_trains_from_a_job_object(client: Any) -> None:
    command = ["python", str(EXAMPLES / "jax_dp.py"), f"--steps={STEPS}"]
    client.create_job(job("JAXJob", "jax", {"Worker": 2}, command))

    finish(client, "jax", "JAXJob")

    logs, _ = client.get_job_logs("jax", job_kind="JAXJob", is_master=False)
    assert_learned(logs, {f"jax-worker-{rank}": f"process {rank} of 2" for rank in range(2)})
    first, _ = client.get_job_logs("jax", job_kind="JAXJob")
    assert list(first) == ["jax-worker-0"]


def test_mpi_trains_from_a_job_object(client: Any) -> None:
    script = str(EXAMPLES / "mpi_allreduce.py")
    command = ["mpirun", "python", "-m", "mpi4py", script, f"--steps={STEPS}", "--report=1"]
    wanted = job("MPIJob", "mpi", {"Launcher": 1, "Worker": 2}, command)
    worker = wanted.spec.mpi_replica_specs["Worker"].template.spec.containers[0]
    worker.command = None  # the launcher starts the ranks
    client.create_job(wanted)

    finish(client, "mpi", "MPIJob")

    (launcher,) = client.get_job_pod_names("mpi", is_master=True)
    assert launcher.startswith("mpi-launcher")
    assert client.get_job_pod_names("mpi", replica_type="launcher") == [launcher]
    logs, _ = client.get_job_logs("mpi", job_kind="MPIJob")
    assert_learned(logs, {launcher: "rank 1 of 2 on mpi-worker-1"})


def assert_learned(logs: dict[str, str], places: dict[str, str]) -> None:
    """Assert that these pods knew their places, and that the loss of each fell."""
    assert logs.keys() == places.keys()
    for pod, place in places.items():
        assert place in logs[pod]
        found = re.findall(r"step (\d+) loss ([\d.]+)", logs[pod])
        curve = {int(step): float(loss) for step, loss in found}
        assert curve[STEPS] < 0.7 * curve[1]
