"""A local cluster of a program's own: used, nested, side by side, and gone afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import kubernetes
import psutil
import pytest

import muster
from localkube.node.machine.teardown import find_leftovers
from muster.client.home import Home
from tests.waiting import until


def has_ended(pid: int) -> bool:
    """Whether the process has exited; the machine's first process may reap it late or never."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_nothing_is_left_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = Home.of_user()

    with muster.local_cluster() as cluster:
        home = cluster.home
        muster.submit("tf", "sleep 300", name="busy").wait(timeout="1m", until="running")
        data = home.data.resolve()
        assert home.root != before.root
        assert home.root.stat().st_mode & 0o077 == 0

    assert not home.root.exists()
    assert not find_leftovers(data)
    assert not before.choice()
    with pytest.raises(muster.UsageError, match="not running"):
        cluster.kubeconfig  # noqa: B018


def test_clusters_are_nested_and_know_nothing_of_each_other(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    with muster.local_cluster(nodes=2) as inner:
        job = muster.submit("tf", "echo inner", name="same").wait(timeout="1m")

        assert inner.url != cluster.url
        assert muster.list_jobs() == [job] == inner.list_jobs()
        assert cluster.list_jobs(namespace=namespace) == []
        assert list(job.logs()) == ["inner"]


def test_clusters_of_several_threads_run_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def train(number: int) -> list[str]:
        with muster.local_cluster():
            job = muster.submit("tf", f"echo {number}", name="same").wait(timeout="2m")
            assert muster.list_jobs() == [job]
            return list(job.logs())

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(train, range(3))) == [["0"], ["1"], ["2"]]


def test_it_can_be_used_where_an_event_loop_runs() -> None:
    async def main() -> None:
        with muster.local_cluster() as cluster:
            assert cluster.list_jobs() == []

    asyncio.run(main())


def test_other_programs_use_it_by_its_kubeconfig(cluster: muster.LocalCluster) -> None:
    config: Any = kubernetes.config
    config.load_kube_config(str(cluster.kubeconfig))
    nodes: list[Any] = kubernetes.client.CoreV1Api().list_node().items

    gpus = {node.metadata.name: node.status.allocatable["nvidia.com/gpu"] for node in nodes}
    assert gpus == {f"muster-{index}": "2" for index in range(4)}


def test_the_cluster_of_a_killed_program_goes_too(tmp_path: Path) -> None:
    program = """
import muster
cluster = muster.local_cluster().start()
cluster.submit("tf", "sleep 300", name="busy").wait(timeout="1m", until="running")
print(cluster.home.root, flush=True)
input()
"""
    running = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    home = Home(Path(running.stdout.readline().strip()))
    daemon = home.running()
    assert daemon is not None

    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=60)

    until(lambda: not home.root.exists(), what="the home is deleted", timeout=60)
    until(lambda: has_ended(daemon), what="the daemon ends")
    assert not find_leftovers(home.data)


def test_a_cluster_that_cannot_start_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with pytest.raises(muster.UsageError, match="memory_per_node 'much' is invalid"):
        muster.local_cluster(python="/no/such/python", memory_per_node="much").start()

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"nodes": 0}, r"local_cluster\(\): Invalid value for 'nodes': 0 is not in the range"),
        ({"runtime": "docker"}, r"'runtime': 'docker' is not one of 'auto'"),
    ],
)
def test_an_impossible_argument_gets_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(muster.UsageError, match=sentence) as caught:
        muster.local_cluster(**settings).start()

    assert "daemon.log" not in caught.value.hint


def test_a_misspelt_argument_gets_the_nearest() -> None:
    arguments = cast(Any, {"gpus_per_nod": 2})

    with pytest.raises(muster.UsageError, match="did you mean gpus_per_node"):
        muster.local_cluster(**arguments)
