"""A pod's namespaces: a `pause` process makes and identifies them, and they end when it exits.

The order of the steps makes a crash safe at any point: the first process exists but waits; its PID
is saved; it gets its link; only then it continues. If the daemon dies earlier, the process exits.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import TYPE_CHECKING

from kubekit.errors import CannotRun
from localkube.node.runtime.processes import fork_program, kill_and_wait, last_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kubekit.objects.meta import Raw

_START_TIMEOUT = 10.0


async def open_sandbox(folder: Path, request: Raw, created: Callable[[int], Raw]) -> None:
    """Start the pod's first process with this request; `pause` describes its fields.

    `created` is called when the namespaces exist: it records the PID and returns the address to
    configure inside.
    """
    ours, theirs = socket.socketpair()
    errors = folder / "pause.err"
    with theirs:
        starter = await asyncio.to_thread(fork_program, "pause", [], {0: theirs.fileno()}, errors)
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            _send(writer, request)
            pid = int((await _receive(reader, errors))["pid"])
            # In a thread: it writes to disk and talks to the kernel.
            _send(writer, await asyncio.to_thread(created, pid))
            await _receive(reader, errors)
    except BaseException as error:
        # The starter exits by itself unless it hangs; in both cases it must be reaped.
        await asyncio.to_thread(kill_and_wait, starter)
        if isinstance(error, TimeoutError):
            message = f"the pod's first process did not start in {_START_TIMEOUT:g} s"
            raise CannotRun(message) from error
        raise
    finally:
        writer.close()
    # Reap the starter, which has done its work.
    await asyncio.to_thread(os.waitpid, starter, 0)


def _send(writer: asyncio.StreamWriter, body: Raw) -> None:
    writer.write(json.dumps(body).encode() + b"\n")


async def _receive(reader: asyncio.StreamReader, errors: Path) -> Raw:
    line = await reader.readline()
    if not line:
        raise CannotRun(f"cannot create the pod's namespaces: {last_line(errors)}")
    body: Raw = json.loads(line)
    return body
