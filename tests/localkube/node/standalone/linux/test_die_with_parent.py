"""A child that is to die with its parent notices also a parent that was faster."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from localkube.node.standalone.linux import kernel

read, write = os.pipe()
if os.fork() == 0:
    parent = os.getpid()
    if os.fork():
        if sys.argv[1] == "alive":
            os.wait()
        os._exit(0)
    while sys.argv[1] == "gone" and os.getppid() == parent:
        pass
    try:
        kernel.die_with_parent(signal.SIGKILL, parent)
        os.write(write, b"goes on")
    except ProcessLookupError as error:
        os.write(write, error.strerror.encode())
    os._exit(0)
os.close(write)
print(os.read(read, 100).decode())
"""


@pytest.mark.parametrize(
    ("parent", "outcome"), [("alive", "goes on"), ("gone", "the parent has exited")]
)
def test_a_parent_that_has_exited_already_is_noticed(parent: str, outcome: str) -> None:
    command = [sys.executable, "-c", PROGRAM, parent]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)

    assert ran.stdout == f"{outcome}\n"
