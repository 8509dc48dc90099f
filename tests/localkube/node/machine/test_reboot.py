"""A machine that is restarted under a running cluster loses no job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from kubekit.request_errors import NotFound
from localkube.node.standalone.linux import files
from localkube.node.standalone.linux.netlink import Netlink
from tests.e2e.local_cluster import LocalCluster
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import needs_namespaces
from tests.waiting import until

pytestmark = [pytest.mark.slow, needs_namespaces]


def restart_machine(local: LocalCluster) -> None:
    """Simulate a restart: end every process, delete every link, change the saved boot ID."""
    data = local.home / "data"
    local.kill_daemon()
    # Stop all before killing any: no shim may see its container exit and report it.
    for step in (signal.SIGSTOP, signal.SIGKILL):
        for pid in leftovers.of(data).processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, step)
    until(lambda: not leftovers.of(data).processes, what="the end of all processes")
    with Netlink() as net:
        for name in leftovers.of(data).links:
            if index := net.index(name):
                net.delete(index)
    for file in data.glob("pods/*/pod"):
        files.write_atomically(file, json.dumps(json.loads(file.read_text()) | {"boot": "another"}))


def test_jobs_run_again_after_a_restart_of_the_machine_and_no_failure_is_counted(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    local = LocalCluster(tmp_path / "home")
    local.up()
    try:
        wait = f"sh -c 'until [ -e {gate}/go ]; do sleep 0.05; done'"
        gate.mkdir()
        local.submit("j", "--workers=2", f"--data-dir={gate}", command=wait)
        local.wait_job("j", "RUNNING")
        before = {local.pod(f"j-worker-{n}").metadata.uid for n in range(2)}

        restart_machine(local)
        local.up()

        def replaced() -> bool:
            try:
                pods = [local.pod(f"j-worker-{n}") for n in range(2)]
            except NotFound:  # deleted, and not created again yet
                return False
            all_new = before.isdisjoint(p.metadata.uid for p in pods)
            return all_new and all(p.status.phase == "Running" for p in pods)

        until(replaced, what="both workers running again", timeout=30)
        local.wait_job("j", "RUNNING")
        (gate / "go").touch()
        local.wait_job("j", "SUCCEEDED")
    finally:
        local.down()
    until(lambda: not leftovers.of(local.home), what="nothing is left")
