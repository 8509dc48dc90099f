"""A pod whose namespaces are created again starts with its init containers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.localkube.node import leftovers
from tests.localkube.node.local_node import LocalNode, Raw, daemon, local_node, needs_namespaces
from tests.localkube.node.pod_builders import container, manifest

pytestmark = [pytest.mark.slow, needs_namespaces]

MOUNTS = [{"name": "m", "mountPath": "/m"}]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    folder = tmp_path / "home"
    folder.mkdir()
    yield folder
    assert not leftovers.of(folder)


def pod_with_init_container() -> Raw:
    """A pod that needs the file that its init container writes to a volume in memory."""
    fill = container("fill", "sh", "-c", "echo filled > $MUSTER_ROOT/m/ready", volumeMounts=MOUNTS)
    work = "cat $MUSTER_ROOT/m/ready || exit 8; sleep 1000"
    return manifest(
        "p",
        container("main", "sh", "-c", work, volumeMounts=MOUNTS),
        initContainers=[fill],
        restartPolicy="Always",
        volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}],
    )


async def running(local: LocalNode, number: int) -> Raw:
    """The pod, as soon as its container runs and has been restarted so often."""

    def check(pod: Raw) -> bool:
        statuses = pod.get("status", {}).get("containerStatuses") or [{"state": {}}]
        return "running" in statuses[0]["state"] and statuses[0]["restartCount"] == number

    pod = await local.until("p", check, f"run {number}")
    await local.says("p", "filled")
    return pod


def init_runs(pod: Raw) -> int:
    return int(pod["status"]["initContainerStatuses"][0]["restartCount"]) + 1


@pytest.mark.parametrize("runtime", ["namespaces", "plain"])
async def test_init_containers_run_again_after_the_cluster_was_stopped(
    home: Path, runtime: str
) -> None:
    async with local_node(home, runtime=runtime) as first:
        await first.run(pod_with_init_container())
        assert init_runs(await running(first, 0)) == 1
    async with local_node(home, runtime=runtime) as second:
        assert init_runs(await running(second, 1)) == 2


async def test_init_containers_run_again_after_the_first_process_was_killed(home: Path) -> None:
    async with local_node(home) as local:
        await local.run(pod_with_init_container())
        pod = await running(local, 0)
        record = home / "pods" / pod["metadata"]["uid"] / "pod"
        os.kill(json.loads(record.read_text())["pause"], signal.SIGKILL)

        assert init_runs(await running(local, 1)) == 2


async def test_init_containers_do_not_run_again_after_a_container_exit_or_a_daemon_restart(
    home: Path,
) -> None:
    async with daemon(home) as (_, first):
        await first.run(pod_with_init_container())
        pod = await running(first, 0)
        os.kill(first.pid(pod), signal.SIGKILL)
        assert init_runs(await running(first, 1)) == 1
    async with local_node(home) as second:
        assert init_runs(await running(second, 1)) == 1
