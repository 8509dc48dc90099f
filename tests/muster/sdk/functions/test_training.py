"""Real training in functions: JAX over two workers, MPI over two ranks."""

from __future__ import annotations

from typing import Any

import pytest

import muster
from tests.examples import training

pytestmark = pytest.mark.slow


def summed() -> tuple[float, int]:
    """The sum of one number of each process, computed by all of them together."""
    import os

    import jax
    import jax.numpy as jnp
    from jax.experimental import multihost_utils

    address = f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}"
    jax.distributed.initialize(
        address, int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    own = jnp.array(10.0 + jax.process_index())
    everyone = multihost_utils.process_allgather(own)
    return float(everyone.sum()), jax.process_count()


def gathered(word: str) -> list[Any]:
    """Rank and host of every process, as rank 0 knows them."""
    import os

    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    rows = MPI.COMM_WORLD.gather((rank, word * (rank + 1), os.environ["HOSTNAME"]), root=0)
    return rows or []


def failing() -> None:
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_rank() == 0:
        raise LookupError("no such file on rank 0")


@pytest.mark.timeout(300)
def test_jax_computes_over_two_workers(cluster: muster.LocalCluster, namespace: str) -> None:
    training.need("jax", "jax")
    job = cluster.run(
        summed, kind="jax", workers=2, gang=True, python=training.PYTHON, namespace=namespace
    )

    assert job.result(timeout="4m") == (21.0, 2)


@pytest.mark.timeout(300)
def test_mpirun_runs_the_function_on_every_worker(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    training.need("mpi", "mpi4py")
    training.mpirun()
    settings: Any = {"kind": "mpi", "workers": 2, "python": training.PYTHON, "namespace": namespace}

    job = cluster.run(gathered, ("x",), name="ring", **settings)
    assert job.result(timeout="4m") == [(0, "x", "ring-worker-0"), (1, "xx", "ring-worker-1")]

    with pytest.raises(LookupError, match="no such file on rank 0"):
        cluster.run(failing, **settings).result(timeout="4m")
