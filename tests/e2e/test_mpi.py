"""Real mpirun as jobs on the local cluster: four ranks in two workers, reached by exec and by ssh.

`mpirun` gets no options of its own: the agent that reaches the workers, the number of ranks and the
permission to run as root all come from the job's environment.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kubekit.objects.meta import Raw
from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import EXAMPLES, LocalCluster, processes_with
from tests.e2e.openssh import make_image
from tests.examples.training import PYTHON, mpirun, need
from tests.muster.words import exited
from tests.waiting import until

pytestmark = pytest.mark.slow
SCRIPT = EXAMPLES / "mpi_allreduce.py"
TRAIN = f"mpirun python -m mpi4py {SCRIPT} --steps 60"
GPU = "nvidia.com/gpu"
WITH_SSH = "mpi-with-ssh:1"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes with two declared GPUs each."""
    need("mpirun", "mpi4py")
    mpirun()
    cluster = LocalCluster(tmp_path_factory.mktemp("home"), PYTHON)
    before = Footprint.now()
    cluster.up("--nodes", "2", "--gpus-per-node", "2", "--python", PYTHON)
    yield cluster
    cluster.down()
    assert Footprint.now().beyond(before, cluster.home) == []


def test_ranks_started_by_exec_train_together(local: LocalCluster) -> None:
    submit(local, "by-exec", TRAIN)

    assert_trained_by_four_ranks(local, "by-exec")

    local.arena("delete", "by-exec")


def test_ranks_started_by_ssh_train_together(local: LocalCluster) -> None:
    make_image(local.home / "images" / WITH_SSH, Path(PYTHON).parent)
    local.apply(over_ssh("by-ssh"))

    assert_trained_by_four_ranks(local, "by-ssh")

    local.arena("delete", "by-ssh")


def test_a_rank_that_raises_fails_the_job_with_its_error(local: LocalCluster) -> None:
    submit(local, "raises", f"mpirun python -m mpi4py {SCRIPT} --logdir={SCRIPT}/not-a-directory")

    job = local.wait_job("raises", "SUCCEEDED", "FAILED", timeout=60)

    assert job["status"] == "FAILED"
    expected = f"{exited(1)}: NotADirectoryError: "
    assert expected in job["reason"], local.arena("logs", "raises").stdout
    local.arena("delete", "raises")


def test_a_rank_that_is_killed_fails_the_job_with_its_signal(local: LocalCluster) -> None:
    mark = "--steps=999"
    submit(local, "killed", f"mpirun python {SCRIPT} {mark} --pause=0.1 --report=1")
    until(
        lambda: "step 3 " in local.arena("logs", "killed", check=False).stdout,
        timeout=60,
        every=0.5,
        what="training",
    )
    ranks = processes_with(mark)
    assert len(ranks) == 4

    os.kill(max(ranks), signal.SIGKILL)

    job = local.wait_job("killed", "SUCCEEDED", "FAILED", timeout=60)
    assert job["status"] == "FAILED"
    # 137 is the killed rank; a peer that loses it may abort first, with 14 (MPI_ERR_UNKNOWN).
    assert any(exited(code) in job["reason"] for code in (137, 14))
    until(lambda: not processes_with(mark), what="the other ranks are gone")
    local.arena("delete", "killed")


def test_a_job_whose_worker_is_deleted_trains_again_to_its_end(local: LocalCluster) -> None:
    """mpirun of Open MPI 5 exits 0 when it loses a worker."""
    submit(local, "lost", f"mpirun python {SCRIPT} --steps=60 --pause=0.1 --report=1")
    until(
        lambda: "step 3 " in local.arena("logs", "lost", check=False).stdout,
        timeout=60,
        every=0.2,
        what="training",
    )

    local.arena("delete", "pod/lost-worker-1")

    job = local.wait_job("lost", "SUCCEEDED", "FAILED", timeout=120)
    assert job["status"] == "SUCCEEDED"
    assert "step 60 " in local.arena("logs", "lost").stdout
    local.arena("delete", "lost")


def test_a_job_whose_worker_is_killed_trains_again_to_its_end(local: LocalCluster) -> None:
    """mpirun of Open MPI 5 mostly exits 0, and its end is often reported before the worker's."""
    kill_worker_1(local, "crashed", "--retry=3")

    job = local.wait_job("crashed", "SUCCEEDED", "FAILED", timeout=120)
    assert (job["status"], job["restarts"]) == ("SUCCEEDED", 1)
    assert "step 60 " in local.arena("logs", "crashed").stdout
    local.arena("delete", "crashed")


def test_a_job_without_retry_whose_worker_is_killed_fails_and_blames_it(
    local: LocalCluster,
) -> None:
    kill_worker_1(local, "once")

    job = local.wait_job("once", "SUCCEEDED", "FAILED", timeout=60)
    assert job["status"] == "FAILED"
    assert job["reason"].startswith("worker 1 ")
    local.arena("delete", "once")


def kill_worker_1(local: LocalCluster, name: str, *flags: str) -> None:
    """Submit a job, and kill the main process of its worker 1 while it trains."""
    train = f"mpirun python -m mpi4py {SCRIPT} --steps=60 --pause=0.1 --report=1"
    submit(local, name, train, "--gpus=2", *flags)
    until(
        lambda: "step 3 " in local.arena("logs", name, check=False).stdout,
        timeout=60,
        every=0.2,
        what="training",
    )
    # What mpirun runs by exec in the pod was started later.
    started = psutil.Process(local.shim_of(f"{name}-worker-1")).children()
    min(started, key=psutil.Process.create_time).kill()


def test_a_running_launcher_sees_workers_that_are_added(local: LocalCluster) -> None:
    """An elastic launcher (horovodrun --host-discovery-script) runs this script periodically."""
    look = "until /etc/mpi/discover_hosts.sh | grep worker-2; do sleep 0.1; done"
    submit(local, "elastic", look, "--gpus=1")
    until(lambda: "Running" in local.arena("get", "elastic").stdout, every=0.2, what="it runs")

    local.arena("scale", "elastic", "--workers=3")

    assert local.wait_job("elastic", "SUCCEEDED", "FAILED", timeout=60)["status"] == "SUCCEEDED"
    assert "elastic-worker-2" in local.arena("logs", "elastic").stdout
    local.arena("delete", "elastic")


def test_a_job_that_ends_soon_after_a_worker_was_added_does_not_run_again(
    local: LocalCluster,
) -> None:
    submit(local, "grown", f"mpirun python {SCRIPT} --steps=60 --pause=0.1 --report=1", "--gpus=1")
    until(
        lambda: "step 3 " in local.arena("logs", "grown", check=False).stdout,
        timeout=60,
        every=0.2,
        what="training",
    )

    local.arena("scale", "grown", "--workers=3")

    job = local.wait_job("grown", "SUCCEEDED", "FAILED", timeout=120)
    assert job["status"] == "SUCCEEDED"
    launchers = [row for row in job["instances"] if "launcher" in row["name"]]
    assert len(launchers) == 1
    local.arena("delete", "grown")


def test_a_launcher_with_gpus_runs_ranks_too(local: LocalCluster) -> None:
    container = {"name": "mpi", "image": "python:3.12", "resources": {"limits": {GPU: 1}}}
    train = {"command": ["sh", "-c", TRAIN]}
    launcher = {"template": {"spec": {"containers": [container | train]}}}
    worker = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    body = {"mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker}}
    meta = {"name": "both"}
    local.apply({"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": meta, "spec": body})

    job = local.wait_job("both", "SUCCEEDED", "FAILED", timeout=120)

    log = local.arena("logs", "both").stdout
    assert job["status"] == "SUCCEEDED", log
    places = dict(re.findall(r"^rank (\d) of 2 on (\S+)$", log, re.MULTILINE))
    assert places == {"0": "both-launcher", "1": "both-worker-0"}
    local.arena("delete", "both")


def submit(
    local: LocalCluster, name: str, command: str, gpus: str = "--gpus=2", *more: str
) -> None:
    flags = (gpus, "--workers=2", "--gang=true", "--clean-task-policy=Running", *more)
    local.arena("submit", "mpi", f"--name={name}", "--image=python:3.12", *flags, command)


def over_ssh(name: str) -> Raw:
    container = {"name": "mpi", "image": WITH_SSH}
    roles = {
        "Launcher": {**container, "command": ["sh", "-c", TRAIN]},
        "Worker": {**container, "resources": {"limits": {"nvidia.com/gpu": 2}}},
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "slotsPerWorker": 2,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiReplicaSpecs": {
                role: {
                    "replicas": 1 + (role == "Worker"),
                    "template": {"spec": {"containers": [body]}},
                }
                for role, body in roles.items()
            },
        },
    }


def assert_trained_by_four_ranks(local: LocalCluster, name: str) -> None:
    job = local.wait_job(name, "SUCCEEDED", "FAILED", timeout=180)
    log = local.arena("logs", name).stdout
    assert job["status"] == "SUCCEEDED", log
    places = dict(re.findall(r"^rank (\d) of 4 on (\S+)$", log, re.MULTILINE))
    assert places == {str(rank): f"{name}-worker-{rank // 2}" for rank in range(4)}
    losses = [float(loss) for loss in re.findall(r"^step \d+ loss ([\d.]+)", log, re.MULTILINE)]
    assert losses[-1] < losses[0] / 2
