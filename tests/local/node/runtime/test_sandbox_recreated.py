"""A pod whose namespaces are made again starts with its init containers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.local.node import leftovers
from tests.local.node.local_node import LocalNode, Raw, daemon, local_node, needs_namespaces
from tests.local.node.pod_builders import container, manifest

pytestmark = [pytest.mark.slow, needs_namespaces]

MOUNTS = [{"name": "m", "mountPath": "/m"}]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    place = tmp_path / "home"
    place.mkdir()
    yield place
    assert not leftovers.of(place)


def prepared() -> Raw:
    """A pod that only works with what its init container puts into memory."""
    fill = container("fill", "sh", "-c", "echo filled > $MUSTER_ROOT/m/ready", volumeMounts=MOUNTS)
    work = "cat $MUSTER_ROOT/m/ready || exit 8; sleep 1000"
    return manifest(
        "p",
        container("main", "sh", "-c", work, volumeMounts=MOUNTS),
        initContainers=[fill],
        restartPolicy="Always",
        volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}],
    )


async def runs(local: LocalNode, number: int) -> Raw:
    """The pod, as soon as its container is in that run, the first being 0."""

    def check(pod: Raw) -> bool:
        found = pod.get("status", {}).get("containerStatuses") or [{"state": {}}]
        return "running" in found[0]["state"] and found[0]["restartCount"] == number

    pod = await local.until("p", check, f"run {number}")
    await local.says("p", "filled")
    return pod


def prepared_times(pod: Raw) -> int:
    return int(pod["status"]["initContainerStatuses"][0]["restartCount"]) + 1


@pytest.mark.parametrize("runtime", ["namespaces", "plain"])
async def test_after_the_cluster_was_down(home: Path, runtime: str) -> None:
    async with local_node(home, runtime=runtime) as one:
        await one.run(prepared())
        assert prepared_times(await runs(one, 0)) == 1
    async with local_node(home, runtime=runtime) as two:
        assert prepared_times(await runs(two, 1)) == 2


async def test_after_its_first_process_was_killed(home: Path) -> None:
    async with local_node(home) as local:
        await local.run(prepared())
        pod = await runs(local, 0)
        record = home / "pods" / pod["metadata"]["uid"] / "pod"
        os.kill(json.loads(record.read_text())["pause"], signal.SIGKILL)

        assert prepared_times(await runs(local, 1)) == 2


async def test_but_not_after_its_container_alone_ended_nor_under_another_daemon(
    home: Path,
) -> None:
    async with daemon(home) as (_, one):
        await one.run(prepared())
        pod = await runs(one, 0)
        os.kill(one.pid(pod), signal.SIGKILL)
        assert prepared_times(await runs(one, 1)) == 1
    async with local_node(home) as two:
        assert prepared_times(await runs(two, 1)) == 1
