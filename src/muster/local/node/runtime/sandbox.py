"""A pod's namespaces: made by a `pause` process, identified by it, gone when it exits.

The order makes a crash safe at any point: the first process exists but waits; its PID is written
down; it gets its link; only then it continues. If the daemon dies earlier, the process exits.
"""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.errors import CannotRun
from muster.local.node.runtime.processes import last_line, start_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from muster.local.node.standalone.linux.mounts import Step

_START_TIMEOUT = 10.0


@dataclass(frozen=True)
class SandboxOptions:
    """`join` is the process whose user and network namespaces the pod's are made in, 0 for our own.
    `shared` is mounted for all containers of the pod."""

    hostname: str
    own_network: bool
    join: int = 0
    shared: tuple[Step, ...] = ()


async def open_sandbox(
    folder: Path, options: SandboxOptions, created: Callable[[int], dict[str, str]]
) -> tuple[int, int]:
    """The PID of the pod's first process, and the PID of its starter, which must be reaped.

    `created` is called when the namespaces exist: it records the PID and returns the address to
    configure inside.
    """
    ours, theirs = socket.socketpair()
    errors = folder / "pause.err"
    with theirs:
        starter = await asyncio.to_thread(start_program, "pause", [], {0: theirs.fileno()}, errors)
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            _send(
                writer,
                folder=str(folder),
                hostname=options.hostname,
                network=options.own_network,
                shared=list(options.shared),
                join=options.join,
            )
            pid = int((await _receive(reader, errors))["pid"])
            address = await asyncio.to_thread(created, pid)
            _send(writer, **address)
            await _receive(reader, errors)
            return pid, starter
    except TimeoutError as error:
        raise CannotRun(f"the pod's first process did not start in {_START_TIMEOUT:g} s") from error
    finally:
        writer.close()


def _send(writer: asyncio.StreamWriter, **body: Any) -> None:
    writer.write(json.dumps(body).encode() + b"\n")


async def _receive(reader: asyncio.StreamReader, errors: Path) -> dict[str, Any]:
    line = await reader.readline()
    if not line:
        raise CannotRun(f"cannot create the pod's namespaces: {last_line(errors)}")
    body: dict[str, Any] = json.loads(line)
    return body
