"""Memory limits: where groups can be made, and containers over their limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.local.apiserver.streams.node_interface import ExecOptions
from muster.local.node.runtime import cgroups
from tests.local.node import leftovers
from tests.local.node.exec_client import ExecClient
from tests.local.node.local_node import local_node, needs_namespaces
from tests.local.node.pod_builders import Raw, container, manifest
from tests.prerequisites import missing_prerequisite
from tests.waiting import eventually

GREEDY = "x = b'x' * (400 << 20); print(len(x))"


@pytest.mark.slow
@needs_namespaces
@pytest.mark.parametrize("runtime", ["namespaces", "plain"])
async def test_a_container_over_its_memory_limit_is_oom_killed(
    tmp_path: Path, runtime: str
) -> None:
    groups = cgroups.find_memory_cgroups(tmp_path)
    if groups is None:
        missing_prerequisite("cgroups", "this machine does not let us create control groups")
    limited = {"resources": {"limits": {"memory": "64Mi"}}}
    async with local_node(tmp_path, runtime=runtime) as local:
        await local.run(
            manifest("greedy", container("main", "python", "-c", GREEDY, **limited)),
            manifest("modest", container("main", "python", "-c", "print(1)", **limited)),
            manifest("free", container("main", "python", "-c", GREEDY)),
        )
        greedy = await local.ended("greedy")
        modest, free = await local.ended("modest"), await local.ended("free")

    assert (greedy["reason"], greedy["exitCode"], greedy["signal"]) == ("OOMKilled", 137, 9)
    assert (modest["exitCode"], free["exitCode"]) == (0, 0)
    assert not groups.folder.exists()
    assert not leftovers.of(tmp_path)


@pytest.mark.slow
@needs_namespaces
async def test_exec_counts_towards_the_containers_memory_limit(tmp_path: Path) -> None:
    """An MPI launcher starts its ranks with exec."""
    if cgroups.find_memory_cgroups(tmp_path) is None:
        missing_prerequisite("cgroups", "this machine does not let us create control groups")
    limited = {"resources": {"limits": {"memory": "64Mi"}}}
    async with local_node(tmp_path) as local:
        await local.run(manifest("p", container("main", "sleep", "1000", **limited)))
        pod = await local.phase("p", "Running")
        greedy = ExecOptions("main", ("python", "-c", GREEDY))

        assert await local.backend.exec(pod, greedy, ExecClient(b"")) == 137
    assert not leftovers.of(tmp_path)


@pytest.mark.slow
@needs_namespaces
async def test_exec_counts_towards_the_containers_usage(tmp_path: Path) -> None:
    script = f"x = b'x' * (100 << 20); open('{tmp_path}/held', 'w').close(); input()"
    async with local_node(tmp_path) as local, asyncio.TaskGroup() as group:
        place: Raw = {"name": "here", "mountPath": str(tmp_path)}
        volume: Raw = {"name": "here", "hostPath": {"path": str(tmp_path)}}
        idle = container("main", "sleep", "1000", volumeMounts=[place])
        await local.run(manifest("p", idle, volumes=[volume]))
        pod = await local.phase("p", "Running")
        inside = ExecOptions("main", ("python", "-c", script), stdin=True)
        running = group.create_task(local.backend.exec(pod, inside, Waiting(b"")))
        await eventually((tmp_path / "held").exists, what="the memory is held")

        usage = await local.backend.usage()

        assert usage.pods[pod["metadata"]["uid"]]["main"].memory > 100 << 20
        running.cancel()


class Waiting(ExecClient):
    """A client that sends no input and stays connected."""

    async def stdin(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""


def proc(folder: Path, cgroup: str, mounts: str) -> Path:
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "mountinfo").write_text(mounts)
    return folder


def mount(kind: str, place: Path, options: str) -> str:
    return f"30 20 0:1 / {place} rw - {kind} none {options}\n"


def group(place: Path, children: str) -> Path:
    """A folder that looks like a group of version 2."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "cgroup.subtree_control").write_text(children)
    return place


def test_cgroup_version_1_is_used_if_it_controls_memory(tmp_path: Path) -> None:
    own = tmp_path / "memory" / "ours"
    own.mkdir(parents=True)
    unified = group(tmp_path / "unified", "")
    mounts = mount("cgroup2", unified, "rw") + mount("cgroup", tmp_path / "memory", "rw,memory")

    groups = cgroups.find_memory_cgroups(
        tmp_path, proc(tmp_path / "proc", "4:memory:/ours\n0::/\n", mounts)
    )

    assert groups is not None
    assert (groups.folder.parent, groups.version_2) == (own, False)


def test_cgroup_version_2_is_used_in_the_nearest_group_that_delegates_memory(
    tmp_path: Path,
) -> None:
    root = group(tmp_path / "root", "memory")
    slice_ = group(root / "app.slice", "cpu memory")
    group(slice_ / "session.scope", "")
    mounts = mount("cgroup2", root, "rw")

    groups = cgroups.find_memory_cgroups(
        tmp_path, proc(tmp_path / "proc", "0::/app.slice/session.scope\n", mounts)
    )

    assert groups is not None
    assert (groups.folder.parent, groups.version_2) == (slice_, True)


def test_a_machine_that_does_not_delegate_memory_has_no_limits(tmp_path: Path) -> None:
    root = group(tmp_path / "root", "cpu")

    own_proc = proc(tmp_path / "proc", "0::/\n", mount("cgroup2", root, "rw"))

    assert cgroups.find_memory_cgroups(tmp_path, own_proc) is None


def test_a_version_2_limit_kills_the_whole_container_and_allows_no_swap(tmp_path: Path) -> None:
    groups = cgroups.MemoryCgroups(tmp_path / "muster-x", version_2=True)

    paths = groups.make("pod.main.0", 1 << 20)

    folder = Path(paths["group"])
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        "memory.max": "1048576",
        "memory.oom.group": "1",
        "memory.swap.max": "0",
    }
    assert paths["events"].endswith("pod.main.0/memory.events")
