"""A real TensorBoard for a job on the local cluster, in a browser, also for a gang."""

from __future__ import annotations

import json
import re
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import PODS
from tests.e2e.local_cluster import EXAMPLES, LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow

WRITER = f"""
import sys, time
sys.path.insert(0, {str(EXAMPLES)!r})
from events import EventWriter
with EventWriter("/training_logs/run") as events:
    step = 0
    while True:
        step += 1
        events.scalar("loss", 1 / step, step)
        time.sleep(0.2)  # pace: a trainer that goes on until its job is deleted
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two GPUs, and pods whose Python has no packages: TensorBoard is the one of Muster."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False, symlinks=True)
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up(
        "--nodes", "1", "--gpus-per-node", "2", "--python", str(environment / "bin" / "python")
    )
    yield cluster
    cluster.down()


def fetched(url: str) -> Any:
    """The content at a URL, or None while no server answers."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


def boards(local: LocalCluster) -> list[tuple[str, str]]:
    """Name and phase of every TensorBoard's pod."""
    with BlockingClient(kube_config.load(local.home / "kubeconfig")) as client:
        pods = client.list(PODS, "default", labels="role=tensorboard").items
    return [(pod.metadata.name, pod.status.phase) for pod in pods]


@pytest.mark.parametrize(("type_", "flags"), [("tf", ("--workers=2", "--ps=1")), ("jax", ())])
def test_the_scalars_of_a_running_gang_are_seen_in_the_browser(
    local: LocalCluster, tmp_path: Path, type_: str, flags: tuple[str, ...]
) -> None:
    script = tmp_path / "writer.py"
    script.write_text(WRITER)
    name = f"board-{type_}"
    local.arena(
        "submit", type_, f"--name={name}", "--image=python:3.12", "--gang", *flags,
        f"--data-dir={tmp_path}", f"--data-dir={EXAMPLES}", "--tensorboard", f"python {script}",
    )  # fmt: skip
    shown = until(
        lambda: re.search(r"http://127\.0\.0\.1:\d+", local.arena("get", name).stdout),
        what="the address of TensorBoard",
    )
    data = f"{shown[0]}/data/plugin/scalars"
    until(
        lambda: "does not answer yet" not in local.arena("get", name).stdout,
        timeout=150,
        every=0.5,
        what="TensorBoard is ready",
    )
    assert fetched(f"{data}/tags") is not None  # no later: its pod is ready when it answers
    until(
        lambda: "loss" in (fetched(f"{data}/tags") or {}).get("run", ()),
        timeout=150,
        what="scalars",
    )
    points = until(lambda: fetched(f"{data}/scalars?run=run&tag=loss"), what="the curve")
    assert points[0][1:] == [1, 1.0]

    local.arena("delete", name)
    until(lambda: boards(local) == [], what="TensorBoard is gone with its job")


def test_the_tensorboard_of_a_waiting_gang_runs_and_is_deleted_with_the_job(
    local: LocalCluster,
) -> None:
    local.arena(
        "submit", "mpi", "--name=waits", "--image=python:3.12", "--gang", "--workers=3",
        "--gpus=1", "--tensorboard", "mpirun python t.py",
    )  # fmt: skip
    until(lambda: local.job("waits")["reason"], what="the gang says why it waits")
    until(lambda: boards(local), what="TensorBoard is there")

    assert local.job("waits")["status"] == "PENDING"
    assert len(local.job("waits")["instances"]) == 3
    local.arena("delete", "waits")
    until(lambda: boards(local) == [], what="TensorBoard is gone with its job")
