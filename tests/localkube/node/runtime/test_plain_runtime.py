"""Pods where namespaces are forbidden: ordinary processes, on the machine's own network."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from kubekit.objects.kinds import EVENTS, PODS
from kubekit.objects.meta import Key
from localkube.node.agent import Agent, Options
from localkube.node.runtime import runtime_choice
from localkube.node.runtime.processes import _SOURCE
from localkube.node_interface import ExecOptions
from tests.e2e.local_cluster import LocalCluster
from tests.localkube.node import leftovers
from tests.localkube.node.exec_client import ExecClient
from tests.localkube.node.local_node import (
    LocalNode,
    daemon,
    local_node,
    needs_namespaces,
    wait_for,
)
from tests.localkube.node.pod_builders import container, manifest, shell
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.slow


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalNode]:
    async with local_node(tmp_path, runtime="plain") as running:
        yield running
    assert not leftovers.of(tmp_path)


async def test_a_plain_pod_runs_in_its_own_folder_and_its_exit_is_reported(
    local: LocalNode,
) -> None:
    await local.run(shell("p", "echo $HOSTNAME; pwd; ls $TMPDIR; touch out; python -V; exit 3"))

    assert (await local.ended("p"))["exitCode"] == 3
    uid = (await local.pod("p"))["metadata"]["uid"]
    version = f"Python {sys.version.split()[0]}"
    assert await local.log("p") == f"p\n{local.home}/pods/{uid}/work\n{version}\n"
    assert (await local.pod("p"))["status"]["podIP"] == "127.0.0.1"


async def test_volumes_are_links_below_the_pods_own_root_and_an_event_says_so(
    local: LocalNode,
) -> None:
    mounts = [{"name": "v", "mountPath": "/training_logs"}]
    script = "echo loss > $MUSTER_ROOT/training_logs/loss; cat $MUSTER_ROOT/training_logs/loss"
    await local.run(
        manifest(
            "p",
            container("main", "sh", "-c", script, volumeMounts=mounts),
            volumes=[{"name": "v", "emptyDir": {}}],
        )
    )

    assert (await local.ended("p"))["exitCode"] == 0
    assert await local.log("p") == "loss\n"
    assert "training_logs" not in os.listdir("/")

    async def recorded() -> bool:
        listing = await local.client.list(EVENTS, "default")
        return any(e.reason == "VolumesNotMounted" for e in listing.items)

    await wait_for(recorded, "the event")


async def test_no_path_of_a_pod_leads_out_of_its_own_root(local: LocalNode) -> None:
    """Three steps up from the root would be the folder of all pods."""
    mounts = [{"name": "v", "mountPath": "/a/../../../../mounted"}]
    main = container(
        "main",
        "sh",
        "-c",
        "pwd; ls -d $MUSTER_ROOT/mounted",
        volumeMounts=mounts,
        workingDir="/../../../cwd",
    )
    await local.run(manifest("p", main, volumes=[{"name": "v", "emptyDir": {}}]))

    assert (await local.ended("p"))["exitCode"] == 0
    root = local.home / "pods" / (await local.pod("p"))["metadata"]["uid"] / "root"
    assert await local.log("p") == f"{root}/cwd\n{root}/mounted\n"
    assert not (local.home / "mounted").is_symlink()
    assert not (local.home / "cwd").exists()


async def test_all_processes_of_a_plain_pod_end_with_it(local: LocalNode) -> None:
    seconds = str(100_000 + os.getpid())  # of no other test on this machine
    await local.run(shell("p", f"setsid sleep {seconds} & sleep 1000"))
    await local.phase("p", "Running")
    until(lambda: _running(seconds), what="the child")

    await local.client.delete(PODS, Key("default", "p"), grace=1)
    await local.gone("p")

    until(lambda: not _running(seconds), what="the end of the child")


async def test_programs_of_a_shell_in_a_plain_pod_get_the_grace_period(local: LocalNode) -> None:
    handler = "trap 'sleep 0.2; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    await local.run(shell("p", f"({handler}); true"))
    await local.says("p", "ready")
    log = asyncio.create_task(local.log("p", follow=True))

    await local.client.delete(PODS, Key("default", "p"), grace=30)

    await local.gone("p")
    assert "saved" in await log


def _running(word: str) -> bool:
    processes = psutil.process_iter(["cmdline"])
    return any(process.info["cmdline"] == ["sleep", word] for process in processes)


async def test_exec_in_a_plain_pod_has_the_pods_environment(local: LocalNode) -> None:
    await local.run(shell("p", "sleep 1000"))
    pod = await local.phase("p", "Running")
    client = ExecClient(b"")

    command = ("sh", "-c", "echo $HOSTNAME; exit 4")
    code = await local.backend.exec(pod, ExecOptions("main", command), client)

    assert (client.out, code) == (b"p\n", 4)


async def test_plain_pods_outlive_a_killed_daemon(tmp_path: Path) -> None:
    tick = "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.05; done"
    async with daemon(tmp_path, "plain") as (_, first):
        await first.run(shell("p", tick))
        before = first.pid(await first.phase("p", "Running"))
        await first.says("p", "tick 2")

    async with daemon(tmp_path, "plain") as (_, second):
        pod = await second.phase("p", "Running")
        assert second.pid(pod) == before
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        os.kill(before, signal.SIGTERM)
        assert (await second.ended("p"))["exitCode"] == 143
    agent = Agent(Options(tmp_path, runtime="plain"))
    await agent.teardown()
    assert not leftovers.of(tmp_path)


WORKER = """
import json, os, socket
task = json.loads(os.environ["TF_CONFIG"])
workers, me = task["cluster"]["worker"], task["task"]["index"]
host, port = workers[me].rsplit(":", 1)
server = socket.create_server((host, int(port)))
if me == 0:
    peer, _ = server.accept()
    print("heard", peer.recv(99).decode())
else:
    import time
    first = workers[0].rsplit(":", 1)
    while True:
        try:
            peer = socket.create_connection((first[0], int(first[1])))
            break
        except OSError:
            time.sleep(0.05)  # pace: until the first one listens
    peer.sendall(f"hello from {me}".encode())
"""


def test_the_workers_of_a_plain_job_find_each_other_at_their_own_ports(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    local = LocalCluster(tmp_path / "home")
    up = local.arena("up", "--detach", "--runtime", "plain")
    try:
        assert "without namespaces" in up.stderr
        status = " ".join(local.arena("status").stdout.split())
        assert "runtime: plain" in status
        assert "externalNetwork: by the machine's own network" in status
        local.submit("j", "--workers=2", command=f"python {script}")
        local.wait_job("j", "SUCCEEDED")
        assert "heard hello from 1" in local.arena("logs", "j", "-i", "j-worker-0").stdout
    finally:
        local.down()
    until(lambda: not leftovers.of(tmp_path / "home"), what="nothing is left")


FORBIDDEN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
Path("/proc/sys/user/max_user_namespaces").write_text("0")
from localkube.node.runtime import runtime_choice
# In here we are root, but only of this namespace.
runtime_choice._methods = lambda: [("rootless", "user")]
choice = runtime_choice.choose_runtime("auto")
print(json.dumps([choice.kind, choice.note]))
"""


@needs_namespaces
def test_a_machine_that_forbids_namespaces_gets_the_plain_runtime_with_a_reason() -> None:
    """The stand-in for such a machine is a user namespace that allows no further ones."""
    inside = ["unshare", "--user", "--map-root-user", sys.executable, "-c", FORBIDDEN, _SOURCE]
    result = subprocess.run(inside, capture_output=True, text=True, check=True)

    kind, note = json.loads(result.stdout)
    assert kind == "plain"
    assert "No space left" in note
    assert "its own port" in note


@needs_namespaces
def test_namespaces_are_chosen_where_they_are_allowed() -> None:
    expected = "root" if os.geteuid() == 0 else "rootless"

    assert runtime_choice.choose_runtime("auto") == runtime_choice.choose_runtime("namespaces")
    assert runtime_choice.choose_runtime("auto").kind == expected
    assert runtime_choice.choose_runtime("auto").note == ""
