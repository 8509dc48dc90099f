"""Limits of real containers, and the files that they become."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from localkube.node.runtime.cgroup_search import find_place
from localkube.node.runtime.cgroups import ControlGroups, Hierarchy, Place, Resources
from localkube.node_interface import ExecOptions
from tests.localkube.node import leftovers
from tests.localkube.node.exec_client import ExecClient
from tests.localkube.node.local_node import local_node, needs_namespaces
from tests.localkube.node.pod_builders import Raw, container, manifest
from tests.prerequisites import missing_prerequisite
from tests.waiting import eventually

GREEDY = "x = b'x' * (400 << 20); print(len(x))"
BOMB = """
import os, signal, sys
for count in range(1, 1000):
    try:
        if os.fork() == 0:
            signal.pause()
    except OSError as error:
        print(f"{count} processes, then {type(error).__name__}")
        sys.exit(7)
"""
BUSY = "import os\nos.fork()\nwhile True: pass"


def limited_place(home: Path) -> Place:
    """The place for control groups on this machine; the test is skipped if limits are missing."""
    place = find_place(home)
    if place.reasons:
        missing_prerequisite("cgroups", f"this machine does not let us limit {place.reasons}")
    return place


@pytest.mark.slow
@needs_namespaces
@pytest.mark.parametrize("runtime", ["namespaces", "plain"])
async def test_a_container_over_its_memory_limit_is_oom_killed(
    tmp_path: Path, runtime: str
) -> None:
    place = limited_place(tmp_path)
    limited = {"resources": {"limits": {"memory": "64Mi"}}}
    tiny = {"resources": {"limits": {"memory": "200"}}}  # bytes: killed before the program starts
    async with local_node(tmp_path, runtime=runtime) as local:
        await local.run(
            manifest("greedy", container("main", "python", "-c", GREEDY, **limited)),
            manifest("modest", container("main", "python", "-c", "print(1)", **limited)),
            manifest("free", container("main", "python", "-c", GREEDY)),
            manifest("tiny", container("main", "python", "-c", "print(1)", **tiny)),
        )
        greedy = await local.ended("greedy")
        modest, free = await local.ended("modest"), await local.ended("free")
        killed = [greedy, await local.ended("tiny")]

    for end in killed:
        assert (end["reason"], end["exitCode"], end["signal"]) == ("OOMKilled", 137, 9)
    assert (modest["exitCode"], free["exitCode"]) == (0, 0)
    assert not any(hierarchy.folder.exists() for hierarchy in place.hierarchies)
    assert not leftovers.of(tmp_path)


@pytest.mark.slow
@needs_namespaces
@pytest.mark.parametrize("runtime", ["namespaces", "plain"])
async def test_a_fork_bomb_ends_at_the_limit_of_its_pod(
    tmp_path: Path, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited_place(tmp_path)
    monkeypatch.setattr("localkube.node.container_lifecycle.processes_per_pod", lambda: 40)
    async with local_node(tmp_path, runtime=runtime) as local:
        await local.run(
            manifest("bomb", container("main", "python", "-c", BOMB), container("side", "true"))
        )
        end = await local.ended("bomb")
        text = await local.log("bomb", container="main")

    assert end["exitCode"] == 7
    assert text == "20 processes, then BlockingIOError\n"
    assert not leftovers.of(tmp_path)


@pytest.mark.slow
@needs_namespaces
async def test_exec_counts_towards_the_containers_memory_limit(tmp_path: Path) -> None:
    """An MPI launcher starts its ranks with exec."""
    limited_place(tmp_path)
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
    shared, home = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    home.mkdir()
    script = f"x = b'x' * (100 << 20); open('{shared}/held', 'w').close(); input()"
    async with local_node(home) as local, asyncio.TaskGroup() as group:
        place: Raw = {"name": "here", "mountPath": str(shared)}
        volume: Raw = {"name": "here", "hostPath": {"path": str(shared)}}
        idle = container("main", "sleep", "1000", volumeMounts=[place])
        await local.run(manifest("p", idle, volumes=[volume]))
        pod = await local.phase("p", "Running")
        inside = ExecOptions("main", ("python", "-c", script), stdin=True)
        running = group.create_task(local.backend.exec(pod, inside, Waiting(b"")))
        await eventually((shared / "held").exists, what="the memory is held")

        usage = await local.backend.usage()

        assert usage.pods[pod["metadata"]["uid"]]["main"].memory > 100 << 20
        running.cancel()


class Waiting(ExecClient):
    """A client that sends no input and stays connected."""

    async def stdin(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""


@pytest.mark.slow
@needs_namespaces
async def test_a_container_over_its_cpu_limit_is_throttled(tmp_path: Path) -> None:
    place = limited_place(tmp_path)
    limited = {"resources": {"limits": {"cpu": "500m"}, "requests": {"cpu": "250m"}}}
    async with local_node(tmp_path) as local:
        await local.run(manifest("busy", container("main", "python", "-c", BUSY, **limited)))
        pod = await local.phase("busy", "Running")
        hierarchy = next(h for h in place.hierarchies if "cpu" in h.controllers)
        group = hierarchy.folder / f"{pod['metadata']['uid']}.main.0"
        await eventually(lambda: throttled(group) > 2, what="the processes are throttled")

        if hierarchy.version_2:
            assert (group / "cpu.max").read_text() == "50000 100000\n"
        else:
            assert (group / "cpu.cfs_quota_us").read_text() == "50000\n"
            assert (group / "cpu.cfs_period_us").read_text() == "100000\n"
            assert (group / "cpu.shares").read_text() == "256\n"
        assert len((group / "cgroup.procs").read_text().split()) == 2
    assert not leftovers.of(tmp_path)


def throttled(group: Path) -> int:
    """The periods in which the group wanted more than its quota."""
    counters = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(counters["nr_throttled"])


def written(group: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in group.iterdir()}


def test_version_2_limits_cpu_and_memory_in_one_group(tmp_path: Path) -> None:
    folder = tmp_path / "muster-x"
    groups = ControlGroups(tmp_path, processors=4)
    groups.use(Place((Hierarchy(folder, version_2=True, controllers=("cpu", "memory")),)))

    paths = groups.make("pod.main.0", Resources(1500, 1000, 1 << 20))

    assert paths == {
        "groups": [str(folder / "pod.main.0")],
        "events": str(folder / "pod.main.0" / "memory.events"),
    }
    assert written(folder / "pod.main.0") == {
        "cpu.max": "150000 100000",
        "cpu.weight": "39",
        "memory.max": "1048576",
        "memory.oom.group": "1",
        "memory.swap.max": "0",
    }
    assert (folder / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (folder / "cpu.weight").read_text() == "400"


def test_a_limit_of_processes_in_version_2_does_not_raise_the_weight(tmp_path: Path) -> None:
    folder = tmp_path / "muster-x"
    groups = ControlGroups(tmp_path, processors=4)
    groups.use(Place((Hierarchy(folder, version_2=True, controllers=("cpu", "memory", "pids")),)))

    groups.make("pod.main.0", Resources(pids_limit=100))

    assert written(folder / "pod.main.0") == {"cpu.weight": "1", "pids.max": "100"}


def test_version_1_has_a_group_per_controller(tmp_path: Path) -> None:
    cpu, memory = tmp_path / "cpu", tmp_path / "memory"
    groups = ControlGroups(tmp_path, processors=4)
    groups.use(Place((Hierarchy(cpu, False, ("cpu",)), Hierarchy(memory, False, ("memory",)))))

    paths = groups.make("p", Resources(cpu_limit=5, memory_limit=1 << 20))

    assert paths == {
        "groups": [str(cpu / "p"), str(memory / "p")],
        "events": str(memory / "p" / "memory.oom_control"),
    }
    assert written(cpu / "p") == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "1000"}
    assert written(memory / "p") == {
        "memory.limit_in_bytes": "1048576",
        "memory.memsw.limit_in_bytes": "1048576",
    }
    assert (cpu / "cpu.shares").read_text() == "4096"


def test_a_container_without_limits_has_no_group(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path, processors=4)
    groups.use(Place((Hierarchy(tmp_path / "x", True, ("cpu", "memory")),)))

    assert groups.make("pod.main.0", Resources()) == {}
    assert not (tmp_path / "x").exists()


def test_groups_of_an_earlier_daemon_are_removed_although_the_place_changed(tmp_path: Path) -> None:
    first, second = (tmp_path / place / "muster-x" for place in ("first", "second"))
    for folder in (first, second):
        (folder / "pod.main.0").mkdir(parents=True)
        groups = ControlGroups(tmp_path, processors=1)
        groups.use(Place((Hierarchy(folder, True, ("memory",)),)))

    groups.remove("other.")
    assert (first / "pod.main.0").exists()
    groups.remove("pod.")
    assert not (first / "pod.main.0").exists()
    groups.close()

    assert not first.exists()
    assert not second.exists()
    assert not (tmp_path / "cgroups").exists()


def test_the_node_says_which_limits_it_does_not_enforce_and_why(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path, processors=1)
    groups.use(Place(reasons={"cpu": "systemd does not delegate cpu"}))

    assert groups.enforcement == {
        "cpu": "not enforced: systemd does not delegate cpu",
        "memory": "enforced",
        "pids": "enforced",
    }
