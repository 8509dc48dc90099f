"""A killed daemon loses nothing: its pods continue, and the next daemon finds them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from muster.api.kinds import EVENTS, PODS
from muster.api.meta import Key
from muster.local.node.agent import Agent, Settings
from muster.local.node.machine.capacity import declare_nodes
from tests.local.node import leftovers
from tests.local.node.local_node import ROOTLESS, Raw, daemon, local_node, needs_namespaces
from tests.local.node.pod_builders import container, manifest
from tests.waiting import until

pytestmark = [pytest.mark.slow, needs_namespaces]


def shell(name: str, script: str) -> Raw:
    return manifest(name, container("main", "sh", "-c", script))


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    """A cluster's home; whatever happens in the test, nothing of it is left on the machine."""
    place = tmp_path / "home"
    place.mkdir()
    yield place
    await sweep(place)
    assert not leftovers.of(place)


async def sweep(home: Path) -> None:
    agent = Agent(Settings(home, declare_nodes(1)))
    agent.open()
    await agent.teardown()


async def test_pods_keep_their_processes_and_their_exits_are_reported(
    home: Path, tmp_path: Path
) -> None:
    """One goes on, one ends while nobody is there, one is deleted afterwards."""
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
    async with daemon(home) as (process, one):
        await one.run(shell("ticking", tick), meanwhile, later)
        pods = {n: await one.phase(n, "Running") for n in ("ticking", "meanwhile", "later")}
        await one.says("ticking", "tick 3")
        before = {name: one.pid(pod) for name, pod in pods.items()}
        process.kill()
        await process.wait()

    (gate / "a").touch()
    until(lambda: not Path(f"/proc/{before['meanwhile']}").exists(), what="the end of one pod")
    seen = len((log_of(home, pods["ticking"])).splitlines())

    async with daemon(home) as (_, two):
        assert (await two.ended("meanwhile"))["exitCode"] == 7
        (gate / "b").touch()
        assert (await two.ended("later"))["exitCode"] == 9
        ticking = await two.phase("ticking", "Running")
        assert two.pid(ticking) == before["ticking"]
        assert ticking["status"]["containerStatuses"][0]["restartCount"] == 0
        await two.says("ticking", f"tick {seen + 3}")
        await two.client.delete(PODS, Key("default", "ticking"), grace=1)
        await two.gone("ticking")


def log_of(home: Path, pod: Raw) -> str:
    folder: Path = home / "pods" / pod["metadata"]["uid"]
    return (folder / "containers/main/0/log").read_text()


async def test_a_bare_pod_that_may_restart_runs_again_when_the_cluster_is_back(home: Path) -> None:
    """Ended by `down`, which is no end of the pod; and it is the same pod."""
    script = "echo run >> /v/runs; wc -l < /v/runs; sleep 1000"
    mounts = [{"name": "v", "mountPath": "/v"}]
    lasting = manifest(
        "p",
        container("main", "sh", "-c", script, volumeMounts=mounts),
        restartPolicy="Always",
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    async with local_node(home) as one:
        await one.run(lasting)
        await one.says("p", "1")
        before = await one.pod("p")
    async with local_node(home) as two:
        await two.says("p", "2")
        after = await two.phase("p", "Running")

    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_being_stopped_with_the_cluster_is_no_crash_however_often(home: Path) -> None:
    lasting = manifest("p", container("main", "sleep", "1000"), restartPolicy="Always")
    reasons: set[str] = set()

    def running_again(pod: Raw, number: int) -> bool:
        found = (pod.get("status", {}).get("containerStatuses") or [{"state": {}}])[0]
        reasons.add(found["state"].get("waiting", {}).get("reason", ""))
        return "running" in found["state"] and found["restartCount"] == number

    for number in range(4):
        async with local_node(home) as local:
            if number == 0:
                await local.run(lasting)
            await local.until("p", partial(running_again, number=number), f"run {number}")
            said = [event.reason for event in (await local.client.list(EVENTS)).items]

    assert "CrashLoopBackOff" not in reasons
    assert "BackOff" not in said


async def test_nothing_of_a_pod_holds_a_socket_of_the_daemon(home: Path) -> None:
    """Else the next daemon could not listen where the former one did, as long as the pod runs."""
    async with daemon(home) as (process, one):
        await one.run(shell("p", "sleep 1000"))
        await one.phase("p", "Running")
        listening = sockets(process.pid)
        others = [pid for pid in leftovers.of(home).processes if pid != process.pid]
        held = {pid: sockets(pid) & listening for pid in others}

    assert listening
    assert others
    assert {pid: found for pid, found in held.items() if found} == {}


def sockets(pid: int) -> set[str]:
    """The sockets that a process has open, as the kernel calls them."""
    found = set()
    with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return {name for name in found if name.startswith("socket:")}


async def test_a_pod_deleted_while_the_daemon_was_down_is_killed(home: Path) -> None:
    async with daemon(home) as (_, one):
        await one.run(shell("p", "sleep 1000"))
        pod = await one.phase("p", "Running")
    process = one.pid(pod)
    for store in (home / "data").glob("objects.db*"):
        store.unlink()  # the API has forgotten everything

    async with daemon(home):
        until(lambda: not Path(f"/proc/{process}").exists(), what="the pod's end")


async def test_pods_of_a_killed_daemon_can_be_swept(home: Path) -> None:
    async with daemon(home) as (_, one):
        await one.run(shell("p", "sleep 1000"))
        await one.phase("p", "Running")
    assert leftovers.of(home).processes
    assert ROOTLESS or leftovers.of(home).links

    await sweep(home)

    assert not leftovers.of(home)


async def test_a_pod_whose_every_process_was_killed_meanwhile_failed(home: Path) -> None:
    async with daemon(home) as (_, one):
        await one.run(shell("p", "sleep 1000"))
        await one.phase("p", "Running")
    for pid in leftovers.of(home).processes:
        with contextlib.suppress(ProcessLookupError):  # the pod's first took it along
            os.kill(pid, signal.SIGKILL)
    until(lambda: not leftovers.of(home).processes, what="all gone")

    async with local_node(home) as two:
        assert (await two.ended("p"))["exitCode"] == 137
