"""A pod's namespaces: made by a `pause` process, found again by its identity, ended with it.

Used by the namespaces runtime. The order is what makes it safe to be killed at any point: the first
process exists but waits, its PID is written down, it gets its link, and only then it goes on; if
the daemon dies before that, it ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.errors import CannotRun
from muster.local.node.runtime.shims import start_program
from muster.local.node.standalone.linux import kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from muster.local.node.standalone.linux.mounts import Step

_START = 10.0


@dataclass(frozen=True)
class SandboxOptions:
    """What the namespaces of one pod should be like.

    `join` is the process whose user and network namespaces they are made in, if not our own;
    `shared` is mounted for all containers of the pod.
    """

    hostname: str
    own_network: bool
    join: int = 0
    shared: tuple[Step, ...] = ()


async def open_sandbox(
    folder: Path, wanted: SandboxOptions, made: Callable[[int], dict[str, str]]
) -> tuple[int, int]:
    """The PID of the pod's first process, and of its starter, to be reaped.

    `made` is called when the namespaces exist: it records the PID and answers the address to
    configure inside.
    """
    ours, theirs = socket.socketpair()
    errors = folder / "pause.err"
    with theirs:
        starter = await asyncio.to_thread(start_program, "pause", [], {0: theirs.fileno()}, errors)
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        async with asyncio.timeout(_START):
            _say(
                writer,
                folder=str(folder),
                hostname=wanted.hostname,
                network=wanted.own_network,
                shared=list(wanted.shared),
                join=wanted.join,
            )
            pid = int((await _hear(reader, errors))["pid"])
            given = await asyncio.to_thread(made, pid)
            _say(writer, **given)
            await _hear(reader, errors)
            return pid, starter
    except TimeoutError as error:
        raise CannotRun(f"the pod's first process did not start in {_START:g} s") from error
    finally:
        writer.close()


def kill(pid: int) -> None:
    """Kill the pod's first process, and with it everything in the pod."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end(pid: int) -> bool:
    """Kill the pod's first process; whether it is gone, which is waited for, but not for ever: it
    stays as long as anything of the pod is not reaped by whoever started that."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    deadline = time.monotonic() + _START
    with open(handle):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        while not (gone := bool(select.select([handle], [], [], 0.02)[0])):
            if time.monotonic() > deadline:
                break
            kernel.reap_orphans()
    with contextlib.suppress(ChildProcessError):  # the child of a former daemon is init's by now
        os.waitpid(pid, os.WNOHANG)
    return gone


def _say(writer: asyncio.StreamWriter, **body: Any) -> None:
    writer.write(json.dumps(body).encode() + b"\n")


async def _hear(reader: asyncio.StreamReader, errors: Path) -> dict[str, Any]:
    line = await reader.readline()
    if not line:
        raise CannotRun(f"the pod's namespaces could not be made: {_last_line(errors)}")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _last_line(file: Path) -> str:
    said = file.read_text(errors="replace").split("\n") if file.exists() else []
    return next((line for line in reversed(said) if line.strip()), "it ended without a word")
