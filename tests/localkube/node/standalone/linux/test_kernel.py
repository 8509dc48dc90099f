"""The kernel's reports about processes that start or exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from localkube.node.standalone.linux import kernel
from tests.localkube.node.local_node import needs_namespaces
from tests.waiting import until

pytestmark = [pytest.mark.slow, needs_namespaces]

FAMILY = """
import os, signal, sys
from localkube.node.standalone.linux import kernel
kernel.unshare(kernel.CLONE_NEWPID | (kernel.CLONE_NEWUSER if os.geteuid() else 0))
first = os.fork() or signal.pause()
second = os.fork() or signal.pause()
print(first, second, flush=True)
sys.stdin.read()
"""


def test_the_first_process_of_a_pod_is_exiting_until_the_last_one_is_reaped() -> None:
    """Its child in the pod is dead too, but the parent outside has not reaped it."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=pipe, stdout=pipe) as parent:
        assert parent.stdout is not None
        first, _second = map(int, parent.stdout.readline().split())
        started = kernel.start_time(first)
        assert not kernel.is_exiting(first)
        os.kill(first, signal.SIGKILL)

        until(lambda: kernel.is_exiting(first), what="the exit of the first process")

        assert kernel.start_time(first) == started > 0
        parent.kill()
