"""The examples really train: processes exit 0, the loss falls, their files are readable.

The processes are started on loopback with the environment that the operator would give them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.examples.reader import Losses, Reader, reader
from tests.examples.training import PYTHON, Processes, free_ports, mpirun, need
from tests.repository import ROOT
from tests.waiting import until

pytestmark = pytest.mark.slow
EXAMPLES = ROOT / "examples"
STEPS = 60
ROUNDING = 2e-4  # Four digits are printed, and single precision sums depend on the order.
__all__ = ["reader"]


@pytest.fixture(scope="module")
def network_alone(tmp_path_factory: pytest.TempPathFactory) -> Losses:
    """What one process that has all the rows prints, training the network of JAX and TensorFlow.

    Both begin with the same weights, so gradients that are really exchanged give this very curve.
    """
    need("tensorflow", "jax")
    with Processes(tmp_path_factory.mktemp("alone")) as job:
        job.start("alone", example("jax_dp.py"))
        assert job.exit_codes() == {"alone": 0}, job.log("alone")
        losses = job.losses("alone")
    assert list(losses) == [1, 10, 20, 30, 40, 50, 60]
    assert losses[STEPS] < 0.6 * losses[1]
    return losses


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as job:
        yield job


def test_tensorflow_trains_with_a_parameter_server(
    reader: Reader, processes: Processes, tmp_path: Path
) -> None:
    logs, model = tmp_path / "logs", tmp_path / "model"

    processes.start_tensorflow(example("tf_ps.py", logs, model), chief=1, worker=2, ps=1)

    ended = {"chief-0": 0, "worker-0": 0, "worker-1": 0, "ps-0": 0}
    assert processes.exit_codes() == ended, processes.log("chief-0")
    printed = processes.losses("chief-0")
    assert list(printed) == [0, 20, 40, 60]
    assert printed[STEPS] < 0.6 * printed[0]
    assert reader.losses(logs) == pytest.approx(printed, abs=ROUNDING)
    assert accuracy_of(reader, model) > 0.8


def test_tensorflow_trains_with_mirrored_workers(
    reader: Reader, network_alone: Losses, processes: Processes, tmp_path: Path
) -> None:
    logs, model = tmp_path / "logs", tmp_path / "model"

    processes.start_tensorflow(example("tf_multiworker.py", logs, model), worker=2)

    assert processes.exit_codes() == {"worker-0": 0, "worker-1": 0}, processes.log("worker-0")
    assert processes.losses("worker-0") == pytest.approx(network_alone, abs=ROUNDING)
    assert processes.losses("worker-1") == processes.losses("worker-0")
    assert_logged(reader.losses(logs), network_alone)
    assert accuracy_of(reader, model) > 0.8


def test_jax_trains_over_two_processes(
    reader: Reader, network_alone: Losses, processes: Processes, tmp_path: Path
) -> None:
    logs, model = tmp_path / "logs", tmp_path / "model"
    (port,) = free_ports(1)

    for index in range(2):
        processes.start(
            f"worker-{index}",
            example("jax_dp.py", logs, model),
            COORDINATOR_ADDRESS="localhost",
            COORDINATOR_PORT=str(port),
            NUM_PROCESSES="2",
            PROCESS_ID=str(index),
        )

    assert processes.exit_codes() == {"worker-0": 0, "worker-1": 0}, processes.log("worker-0")
    assert processes.losses("worker-0") == pytest.approx(network_alone, abs=ROUNDING)
    assert processes.losses("worker-1") == processes.losses("worker-0")
    assert_logged(reader.losses(logs), network_alone)
    weights = np.load(model / "model.npz")
    inputs, labels = samples()
    hidden = np.tanh(inputs @ weights["hidden"] + weights["shift"])
    assert accuracy(hidden @ weights["output"], labels) > 0.8


def test_numpy_trains_with_parameter_servers_and_waits_for_a_trainer_that_dies(
    processes: Processes, tmp_path: Path
) -> None:
    logs, model = tmp_path / "logs", tmp_path / "model"
    paced = [*example("numpy_ps.py", logs, model), "--pause=0.1", "--report=1"]

    processes.start_tensorflow(paced, worker=2, ps=2)
    until(lambda: len(processes.losses("worker-1")) > 5, what="a few steps")
    processes.kill_and_restart("worker-1")

    ended = {"worker-0": 0, "worker-1": 0, "ps-0": 0, "ps-1": 0}
    assert processes.exit_codes() == ended, processes.log("worker-1")
    losses = processes.losses("worker-0")
    with Processes(tmp_path / "model") as calm:
        calm.start_tensorflow([*example("numpy_ps.py"), "--report=1"], chief=1, worker=1, ps=1)
        assert set(calm.exit_codes().values()) == {0}
        # Every step was counted once: the curve does not show that a trainer was away.
        assert losses == calm.losses("chief-0")
    assert losses[STEPS] < 0.5 * losses[1]
    assert "trainer 1 went away" in processes.log("ps-0")
    inputs, labels = samples()
    assert accuracy(inputs @ np.load(model / "model.npz")["weights"], labels) > 0.8


def test_numpy_trains_over_ranks_as_pytorch_would(
    reader: Reader, processes: Processes, tmp_path: Path
) -> None:
    logs, model = tmp_path / "logs", tmp_path / "model"
    (port,) = free_ports(1)

    for rank in range(3):
        processes.start(
            f"rank-{rank}",
            example("numpy_allreduce.py", logs, model),
            MASTER_ADDR="localhost",
            MASTER_PORT=str(port),
            RANK=str(rank),
            WORLD_SIZE="3",
        )

    assert set(processes.exit_codes().values()) == {0}, processes.log("rank-0")
    losses = processes.losses("rank-0")
    assert losses == processes.losses("rank-2")
    assert losses[STEPS] < 0.5 * losses[1]
    assert_logged(reader.losses(logs), losses)
    inputs, labels = samples()
    assert accuracy(inputs @ np.load(model / "model.npz")["weights"], labels) > 0.8


def test_mpi_trains_over_four_ranks(reader: Reader, processes: Processes, tmp_path: Path) -> None:
    need("mpirun", "mpi4py")
    logs, model = tmp_path / "logs", tmp_path / "model"

    processes.start("ranks", [*ranks(4), *example("mpi_allreduce.py", logs, model)])
    processes.start("alone", [*ranks(1), *example("mpi_allreduce.py")])

    assert processes.exit_codes() == {"ranks": 0, "alone": 0}, processes.log("ranks")
    assert all(f"rank {rank} of 4" in processes.log("ranks") for rank in range(4))
    alone = processes.losses("alone")
    assert processes.losses("ranks") == pytest.approx(alone, abs=ROUNDING)
    assert_logged(reader.losses(logs), alone)
    inputs, labels = samples()
    assert accuracy(inputs @ np.load(model / "model.npz")["weights"], labels) > 0.8


def test_training_that_does_not_learn_is_a_failure(processes: Processes) -> None:
    need("tensorflow", "jax")
    need("mpirun", "mpi4py")

    processes.start("jax", [*example("jax_dp.py"), "--rate=0"])
    processes.start("mpi", [*ranks(2), *example("mpi_allreduce.py"), "--rate=0"])

    assert processes.exit_codes() == {"jax": 1, "mpi": 1}


@pytest.mark.long
def test_mirrored_training_that_does_not_learn_is_a_failure_of_every_worker(
    processes: Processes,
) -> None:
    need("tensorflow", "tensorflow")

    processes.start_tensorflow([*example("tf_multiworker.py"), "--rate=0"], worker=2)

    assert processes.exit_codes() == {"worker-0": 1, "worker-1": 1}


@pytest.mark.long
def test_a_parameter_server_job_that_does_not_learn_fails_by_its_chief_alone(
    processes: Processes,
) -> None:
    need("tensorflow", "tensorflow")

    processes.start_tensorflow([*example("tf_ps.py"), "--rate=0"], chief=1, worker=1, ps=1)

    assert processes.exit_codes() == {"chief-0": 1, "worker-0": 0, "ps-0": 0}


@pytest.mark.long
@pytest.mark.parametrize("victim", ["worker-1", "chief-0"])
def test_a_parameter_server_job_goes_on_when_a_replica_comes_back(
    processes: Processes, victim: str
) -> None:
    need("tensorflow", "tensorflow")
    slowly = [*example("tf_ps.py"), "--steps=200", "--pause=0.5"]
    processes.start_tensorflow(slowly, chief=1, worker=2, ps=1)
    until(lambda: 40 in processes.losses("chief-0"), timeout=180, what="a few steps")

    processes.kill_and_restart(victim)

    # Worker 1 is not checked: on a busy machine it may come back after the end.
    ended = {"chief-0": 0, "worker-0": 0, "ps-0": 0}
    assert processes.exit_codes(*ended) == ended, processes.log("chief-0")
    assert processes.losses("chief-0")[200] < 0.2


def example(name: str, logs: Path | None = None, model: Path | None = None) -> list[str]:
    """The command of one process."""
    written = ["--logdir", str(logs), "--export", str(model)] if logs and model else []
    return [PYTHON, str(EXAMPLES / name), "--steps", str(STEPS), *written]


def ranks(count: int) -> list[str]:
    """The mpirun command: allowed to run as root, and with two ranks per core."""
    return [mpirun(), "--allow-run-as-root", "--oversubscribe", "-n", str(count)]


def assert_logged(logged: Losses, printed: Losses) -> None:
    """Assert that the event file has every step, with the losses that were printed."""
    assert list(logged) == list(range(1, STEPS + 1))
    assert {step: logged[step] for step in printed} == pytest.approx(printed, abs=ROUNDING)


def samples() -> tuple[np.ndarray, np.ndarray]:
    """The rows that all the examples learn from."""
    source = np.random.default_rng(7)
    truth = source.normal(size=(20, 4))
    inputs = source.normal(size=(2000, 20))
    return inputs, (inputs @ truth).argmax(axis=1)


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    return float((scores.argmax(axis=1) == labels).mean())


def accuracy_of(reader: Reader, model: Path) -> float:
    """The accuracy of the exported SavedModel; guessing gives a quarter."""
    inputs, labels = samples()
    return accuracy(np.array(reader.ask(model=str(model), inputs=inputs.tolist())), labels)
