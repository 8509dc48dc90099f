"""A killed daemon loses nothing: its pods continue, and the next daemon finds them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from kubekit.objects.kinds import EVENTS, PODS
from kubekit.objects.meta import Key
from localkube.node.agent import Agent, Options
from localkube.node.runtime.pod_records import PodRecord
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import ROOTLESS, Raw, daemon, local_node, needs_namespaces
from tests.localkube.node.pod_builders import container, manifest, shell
from tests.small_disk import small_disk
from tests.waiting import eventually, until

pytestmark = [pytest.mark.slow, needs_namespaces]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    """A cluster's home; after the test its pods are stopped, and nothing may be left."""
    folder = tmp_path / "home"
    folder.mkdir()
    yield folder
    await sweep(folder)
    assert not leftovers.of(folder)


async def sweep(home: Path) -> None:
    agent = Agent(Options(home))
    agent.open()
    await agent.teardown()


async def test_pods_of_a_killed_daemon_keep_running_and_their_exits_are_reported(
    home: Path, tmp_path: Path
) -> None:
    """One pod keeps running, another exits without a daemon, a third under the next one."""
    tick = "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.05; done"
    wait = "until [ -e /gate/{} ]; do sleep 0.02; done; exit {}"
    gate = tmp_path / "gate"
    gate.mkdir()
    gated = {"volumeMounts": [{"name": "gate", "mountPath": "/gate"}]}
    volumes = [{"name": "gate", "hostPath": {"path": str(gate)}}]
    meanwhile = manifest(
        "meanwhile", container("main", "sh", "-c", wait.format("a", 7), **gated), volumes=volumes
    )
    later = manifest(
        "later", container("main", "sh", "-c", wait.format("b", 9), **gated), volumes=volumes
    )
    async with daemon(home) as (process, first):
        await first.run(shell("ticking", tick), meanwhile, later)
        pods = {n: await first.phase(n, "Running") for n in ("ticking", "meanwhile", "later")}
        await first.says("ticking", "tick 3")
        before = {name: first.pid(pod) for name, pod in pods.items()}
        process.kill()
        await process.wait()

    (gate / "a").touch()
    until(lambda: not Path(f"/proc/{before['meanwhile']}").exists(), what="the exit of the pod")
    ticks = len((log_of(home, pods["ticking"])).splitlines())

    async with daemon(home) as (_, second):
        assert (await second.ended("meanwhile"))["exitCode"] == 7
        (gate / "b").touch()
        assert (await second.ended("later"))["exitCode"] == 9
        ticking = await second.phase("ticking", "Running")
        assert second.pid(ticking) == before["ticking"]
        assert ticking["status"]["containerStatuses"][0]["restartCount"] == 0
        await second.says("ticking", f"tick {ticks + 3}")
        await second.client.delete(PODS, Key("default", "ticking"), grace=1)
        await second.gone("ticking")


def log_of(home: Path, pod: Raw) -> str:
    folder: Path = home / "pods" / pod["metadata"]["uid"]
    return (folder / "containers/main/0/log").read_text()


async def test_a_pod_without_a_controller_restarts_in_place_at_the_next_up(home: Path) -> None:
    """`down` stops its container; the same pod continues."""
    script = "echo run >> /v/runs; wc -l < /v/runs; sleep 1000"
    mounts = [{"name": "v", "mountPath": "/v"}]
    sleeper = manifest(
        "p",
        container("main", "sh", "-c", script, volumeMounts=mounts),
        restartPolicy="Always",
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    async with local_node(home) as first:
        await first.run(sleeper)
        await first.says("p", "1")
        before = await first.pod("p")
    async with local_node(home) as second:
        await second.says("p", "2")
        after = await second.until("p", restarted_once, "p restarted once")

    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def restarted_once(pod: Raw) -> bool:
    return bool(pod["status"]["containerStatuses"][0]["restartCount"] == 1)


async def test_stopping_the_cluster_repeatedly_causes_no_crash_loop(home: Path) -> None:
    sleeper = manifest("p", container("main", "sleep", "1000"), restartPolicy="Always")
    reasons: set[str] = set()

    def running_again(pod: Raw, number: int) -> bool:
        status = (pod.get("status", {}).get("containerStatuses") or [{"state": {}}])[0]
        reasons.add(status["state"].get("waiting", {}).get("reason", ""))
        return "running" in status["state"] and status["restartCount"] == number

    for number in range(4):
        async with local_node(home) as local:
            if number == 0:
                await local.run(sleeper)
            await local.until("p", partial(running_again, number=number), f"run {number}")
            events = [event.reason for event in (await local.client.list(EVENTS)).items]

    assert "CrashLoopBackOff" not in reasons
    assert "BackOff" not in events


async def test_a_pod_whose_record_was_never_written_is_started_anew(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk keeps the record from being written; then the daemon is killed."""
    names = [f"p{number}" for number in range(4)]
    async with local_node(home) as first:
        await first.run(*(shell(name, "sleep 1000") for name in names))
        for name in names:
            await first.phase(name, "Running")
    for record in (home / "pods").glob("*/pod"):
        record.unlink()

    async with local_node(home) as second:
        for name in names:
            await second.phase(name, "Running")

    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == []


async def test_a_container_that_cannot_start_on_a_full_disk_has_not_failed(
    home: Path, tmp_path: Path
) -> None:
    """Its working directory cannot be made, until the disk has room again."""
    with small_disk(tmp_path / "disk", "64k,nr_inodes=2") as disk:
        (disk / "file").touch()
        mounts = [{"name": "disk", "mountPath": "/disk"}]
        main = container("main", "pwd", volumeMounts=mounts, workingDir="/disk/folder")
        volumes = [{"name": "disk", "hostPath": {"path": str(disk)}}]
        async with local_node(home) as local:
            await local.run(manifest("p", main, volumes=volumes, restartPolicy="Never"))
            attempts = home / "pods"
            await eventually(lambda: list(attempts.glob("*/containers/main/.0")), timeout=20)
            (disk / "file").unlink()

            ended = await local.ended("p")

        assert ended["exitCode"] == 0


async def test_no_process_of_a_pod_holds_a_socket_of_the_daemon(home: Path) -> None:
    """Otherwise the next daemon could not listen on the same port while the pod runs."""
    async with daemon(home) as (process, first):
        await first.run(shell("p", "sleep 1000"))
        await first.phase("p", "Running")
        listening = sockets(process.pid)
        others = [pid for pid in leftovers.of(home).processes if pid != process.pid]
        held = {pid: sockets(pid) & listening for pid in others}

    assert listening
    assert others
    assert {pid: names for pid, names in held.items() if names} == {}


def sockets(pid: int) -> set[str]:
    """The kernel's names of the sockets that a process has open."""
    targets = set()
    with contextlib.suppress(FileNotFoundError):  # it has exited meanwhile
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                targets.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return {name for name in targets if name.startswith("socket:")}


async def test_a_pod_deleted_while_the_daemon_was_down_is_killed(home: Path) -> None:
    async with daemon(home) as (_, first):
        await first.run(shell("p", "sleep 1000"))
        pod = await first.phase("p", "Running")
    process = first.pid(pod)
    for store in (home / "data").glob("objects.*"):
        store.unlink()  # the API has no objects any more

    async with daemon(home):
        until(lambda: not Path(f"/proc/{process}").exists(), what="the pod's end")


async def test_teardown_removes_the_pods_of_a_killed_daemon(home: Path) -> None:
    async with daemon(home) as (_, first):
        await first.run(shell("p", "sleep 1000"))
        await first.phase("p", "Running")
    assert leftovers.of(home).processes
    assert ROOTLESS or leftovers.of(home).links

    await sweep(home)

    assert not leftovers.of(home)


async def test_one_pod_that_cannot_be_stopped_keeps_neither_other_pods_nor_the_network(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(home) as (_, first):
        await first.run(shell("p", "sleep 1000"), shell("q", "sleep 1000"))
        await first.phase("p", "Running")
        await first.phase("q", "Running")
    agent = Agent(Options(home))
    agent.open()
    removed, read = agent.records.uids()[0], agent.records.read

    def without_a_record(uid: str) -> PodRecord:
        if uid == removed:  # as if its folder was deleted at this moment
            raise FileNotFoundError(uid)
        return read(uid)

    with monkeypatch.context() as patch:
        patch.setattr(agent.records, "read", without_a_record)
        await agent.teardown()

    assert not leftovers.of(home)


async def test_a_pod_whose_processes_were_all_killed_without_a_daemon_has_failed(
    home: Path,
) -> None:
    async with daemon(home) as (_, first):
        await first.run(shell("p", "sleep 1000"))
        await first.phase("p", "Running")
    for pid in leftovers.of(home).processes:
        with contextlib.suppress(ProcessLookupError):  # it ended with the pod's first process
            os.kill(pid, signal.SIGKILL)
    until(lambda: not leftovers.of(home).processes, what="the end of all processes")

    async with local_node(home) as second:
        assert (await second.ended("p"))["exitCode"] == 137
