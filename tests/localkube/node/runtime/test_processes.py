"""Killing processes that run beside the daemon."""

from __future__ import annotations

import subprocess
import sys

import pytest

from localkube.node.runtime import processes
from localkube.node.standalone.linux import kernel
from tests.localkube.node.local_node import needs_namespaces

pytestmark = [pytest.mark.slow, needs_namespaces]

PARENT_THAT_DOES_NOT_REAP = """
import os, sys
from localkube.node.standalone.linux import kernel
user = kernel.CLONE_NEWUSER if os.geteuid() else 0
kernel.unshare(user | kernel.CLONE_NEWPID)
pids = []
for _ in range(2):  # the first process of the namespace, and another one
    pid = os.fork()
    if not pid:
        os.execvp("sleep", ["sleep", "1000"])
    pids.append(pid)
print(*pids, flush=True)
sys.stdin.read()
"""


def test_a_first_process_whose_zombies_nobody_reaps_counts_as_gone() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT_THAT_DOES_NOT_REAP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        first, other = map(int, parent.stdout.readline().split())

        assert processes.kill_and_wait(first)

        assert kernel.start_time(first)  # it waits for the zombie
        assert not kernel.start_time(other)
