"""Real training as jobs on the local cluster: TensorFlow, JAX and PyTorch.

Each job runs the example as a person would submit it; the loss is read from the pods' logs and from
the event files that they wrote into a folder of the host.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import EXAMPLES, LocalCluster, manifest, processes_with
from tests.examples.reader import Losses, Reader, reader
from tests.examples.training import PYTHON, need
from tests.prerequisites import missing_prerequisite
from tests.waiting import until

pytestmark = pytest.mark.slow
__all__ = ["reader"]
ROUNDING = 1e-3
STEPS = 40


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes whose pods have the training environment's Python."""
    need("tensorflow", "tensorflow", "jax", "numpy")
    cluster = LocalCluster(tmp_path_factory.mktemp("home"), PYTHON)
    before = Footprint.now()
    cluster.up("--nodes", "2", "--gpus-per-node", "2", "--python", PYTHON)
    yield cluster
    cluster.down()
    assert Footprint.now().beyond(before, cluster.home) == []


def test_tensorflow_trains_with_a_parameter_server(
    local: LocalCluster, reader: Reader, tmp_path: Path
) -> None:
    flags = ("--gang", "--chief", "--workers=2", "--ps=1", f"--data-dir={tmp_path}")
    local.submit("tf-ps", *flags, command=example("tf_ps.py", tmp_path))

    assert_learns(local, "tf-ps", chief="tf-ps-chief-0")

    assert reader.losses(tmp_path / "logs") == pytest.approx(losses(local, "tf-ps"), abs=ROUNDING)
    assert (tmp_path / "model" / "saved_model.pb").exists()


def test_tensorflow_trains_with_mirrored_workers(
    local: LocalCluster, reader: Reader, tmp_path: Path
) -> None:
    flags = ("--gang", "--workers=2", "--success-policy=AllWorkers", f"--data-dir={tmp_path}")
    local.submit("mirrored", *flags, command=example("tf_multiworker.py", tmp_path))

    assert_learns(local, "mirrored", chief="mirrored-worker-0")

    assert losses(local, "mirrored", "mirrored-worker-1") == losses(local, "mirrored")
    assert len(reader.losses(tmp_path / "logs")) == STEPS


def test_jax_trains_over_two_processes(local: LocalCluster, reader: Reader, tmp_path: Path) -> None:
    command = example("jax_dp.py", tmp_path)
    local.apply(manifest("JAXJob", "jax", {"Worker": 2}, command, folder=tmp_path))

    assert_learns(local, "jax", chief="jax-worker-0")

    assert losses(local, "jax", "jax-worker-1") == losses(local, "jax")
    assert len(reader.losses(tmp_path / "logs")) == STEPS


def test_the_environment_of_a_pytorch_job_is_enough_to_train(
    local: LocalCluster, reader: Reader, tmp_path: Path
) -> None:
    """For machines without torch: the script reads the same variables."""
    command = example("numpy_allreduce.py", tmp_path)
    local.apply(manifest("PyTorchJob", "torch", {"Master": 1, "Worker": 2}, command, tmp_path))

    assert_learns(local, "torch", chief="torch-master-0")

    assert "rank 0 of 3" in local.arena("logs", "torch").stdout
    assert len(reader.losses(tmp_path / "logs")) == STEPS


def test_pytorch_trains_under_torchrun(local: LocalCluster, reader: Reader, tmp_path: Path) -> None:
    if shutil.which("torchrun") is None:
        missing_prerequisite("torchrun", "no torchrun on the PATH (apt-get install python3-torch)")
    # The torchrun of Debian 12 fails with its own defaults of these two variables: in Python 3.11
    # the members of an enumeration of flags no longer include 0.
    debian = ("--env=PET_REDIRECTS=1", "--env=PET_TEE=1")
    flags = ("--gang", "--workers=2", "--nproc-per-node=1", f"--data-dir={tmp_path}")
    script = example("torch_ddp.py", tmp_path).replace("python", "torchrun", 1)
    local.arena("submit", "pytorch", "--name=ddp", "--image=torch", *flags, *debian, script)

    assert_learns(local, "ddp", chief="ddp-master-0")

    assert "rank 0 of 2" in local.arena("logs", "ddp").stdout
    assert len(reader.losses(tmp_path / "logs")) == STEPS
    assert (tmp_path / "model" / "model.pt").exists()


def test_a_killed_daemon_does_not_disturb_tensorflow(local: LocalCluster) -> None:
    mark = "--steps=101"
    command = f"python {EXAMPLES / 'tf_multiworker.py'} {mark} --pause=0.12 --report=1"
    local.submit("calm", "--gang", "--workers=2", "--success-policy=AllWorkers", command=command)
    until(lambda: len(losses(local, "calm")) > 5, timeout=120, every=0.5, what="training")
    before = processes_with(mark)

    local.kill_daemon()
    local.up("--nodes", "2", "--gpus-per-node", "2", "--python", PYTHON)

    assert len(before) == 2
    assert processes_with(mark).items() <= before.items()  # Some may have ended.
    assert local.wait_job("calm", "SUCCEEDED", "FAILED")["status"] == "SUCCEEDED"
    assert list(losses(local, "calm")) == list(range(1, 102))
    for worker in ("calm-worker-0", "calm-worker-1"):
        state = local.pod(worker).status.container_statuses[0]
        assert state.restart_count == 0
        assert state.state.terminated is not None
        assert state.state.terminated.exit_code == 0
    local.arena("delete", "calm")


def example(name: str, folder: Path) -> str:
    files = f"--logdir {folder / 'logs'} --export {folder / 'model'}"
    return f"python {EXAMPLES / name} --steps {STEPS} {files}"


def assert_learns(local: LocalCluster, job: str, *, chief: str) -> None:
    """Assert that the job succeeds, and that its loss starts high and ends low."""
    ended = local.wait_job(job, "SUCCEEDED", "FAILED", timeout=180)
    assert ended["status"] == "SUCCEEDED", local.arena("logs", job).stdout
    curve = losses(local, job, chief)
    assert max(curve) == STEPS
    assert curve[STEPS] < 0.6 * curve[min(curve)]


def losses(local: LocalCluster, job: str, instance: str = "") -> Losses:
    """The losses that a replica, by default the chief, printed."""
    chosen = ("-i", instance) if instance else ()
    log = local.arena("logs", job, *chosen, check=False).stdout
    lines = re.findall(r"^(?:\[default0\]:)?step (\d+) loss ([\d.]+)$", log, re.MULTILINE)
    return {int(step): float(loss) for step, loss in lines}
