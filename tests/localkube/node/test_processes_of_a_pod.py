"""What a program sees of the other processes of its pod: nothing that leads to hidden state."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

from localkube.node.runtime import shim_client
from localkube.node.standalone.linux import kernel
from localkube.node_interface import ExecOptions
from tests.localkube.node.exec_client import ExecClient
from tests.localkube.node.local_node import LocalNode, needs_namespaces, wait_for
from tests.localkube.node.pod_builders import container, manifest

pytestmark = [pytest.mark.slow, needs_namespaces]

SPY = """
import contextlib, json, os, sys

home, last = sys.argv[1:]
own = os.readlink("/proc/self/ns/mnt")
leaks, seen = set(), set()

def look(pid):
    with open(f"/proc/{pid}/cmdline") as file:
        seen.update(file.read().split("\\0"))
    for place in ("root", "cwd"):
        link = os.readlink(f"/proc/{pid}/{place}")
        if home in link or os.path.exists(f"/proc/{pid}/{place}{home}/data"):
            leaks.add(f"{place} {link}")
    for fd in os.listdir(f"/proc/{pid}/fd"):
        link = os.readlink(f"/proc/{pid}/fd/{fd}")
        if home in link or link.startswith("mnt:") or os.path.isdir(f"/proc/{pid}/fd/{fd}"):
            leaks.add(f"fd {link}")

while last not in seen:
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            with contextlib.suppress(OSError):
                look(pid)
print(json.dumps([sorted(leaks), sorted(seen)]))
"""


async def test_no_process_of_a_pod_leads_to_the_clusters_state(local: LocalNode) -> None:
    """Nor does one that just starts: a container, a session of exec, a probe."""
    spy = container("main", sys.executable, "-c", SPY, str(local.home), "999")
    others = [container(f"c{number}", "sleep", str(number + 100)) for number in range(20)]
    others[0]["readinessProbe"] = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    await local.run(manifest("p", spy, *others, initContainers=[container("first", "true")]))
    pod = await local.phase("p", "Running")
    for _ in range(20):
        await local.backend.exec(pod, ExecOptions("c1", ("true",)), ExecClient(b""))
    options = ExecOptions("c1", ("sleep", "999"))
    session = asyncio.create_task(local.backend.exec(pod, options, ExecClient(b"")))

    text = await wait_for(lambda: local.log("p", container="main"), "the spy has seen the session")
    session.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await session

    leaks, seen = json.loads(text)
    assert leaks == []
    assert {"infinity", "100", "119", "999"} <= set(seen), "the other processes were seen"


@pytest.mark.parametrize("alive", [False, True])
def test_a_container_does_not_start_outside_its_pod(tmp_path: Path, alive: bool) -> None:
    """Its first process has exited, and another process of the machine may have its PID."""
    folder, proof = tmp_path / "0", tmp_path / "proof"
    spec = {
        "argv": ["touch", str(proof)],
        "env": {},
        "cwd": "/",
        "tty": False,
        "stdin": False,
        "limits": {},
        "pause": os.getpid() if alive else 2**22 + 1,
        "pause_started": kernel.start_time(os.getpid()),
        "pod": str(tmp_path),
        "root": str(folder / "root"),
        "steps": [],
        "hidden": [],
        "own": [],
    }

    os.waitpid(shim_client.start_shim(folder, spec, {}), 0)

    assert not proof.exists()
    if alive:
        assert "has exited" in json.loads((folder / "exited").read_text())["message"]
    else:
        assert not folder.exists(), "the node makes the attempt again"
