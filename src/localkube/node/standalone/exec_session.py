"""One exec: runs a program in a running container and relays its streams to a socket.

The shim forks one process per exec, so a client that reads slowly blocks only its own program. When
the client disconnects, the program is killed. The first frame is STATUS `{"state": "running"}`, and
a client sends no input before it; the last frame is a STATUS with the program's exit code.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
from typing import TYPE_CHECKING, Any, NamedTuple

from localkube.node.standalone import shim_socket, spawn
from localkube.node.standalone.linux import kernel
from localkube.node.standalone.spawn import StdinWriter

if TYPE_CHECKING:
    import socket

_CHUNK = 64 * 1024
_CANNOT_ENTER = 126


class _Streams(NamedTuple):
    """Our ends of the program's input and outputs, and the program's own ends."""

    stdin: int
    outputs: dict[int, int]
    theirs: tuple[int, int, int]
    terminal: int = -1


def serve(client: socket.socket, request: dict[str, Any], main: int, spec: dict[str, Any]) -> None:
    """Run the requested program in the namespaces of the container's process `main`, within the
    container's limits, until it exits."""
    client.setblocking(True)
    # Opened here and used later: inside the container's mounts the path does not exist.
    procs = spawn.open_groups(spec["limits"])

    def prepare() -> list[int]:
        kernel.die_with_parent(signal.SIGKILL)
        return []

    tty = bool(request.get("tty"))
    env = spec["env"] | ({"TERM": "xterm"} if tty else {})
    try:
        fds = kernel.open_namespaces(main)
        pid_namespace = fds.pop("pid", -1)
        kernel.enter(fds)
        streams = _terminal() if tty else _pipes()
        program = spawn.Program(request["argv"], env, spec["cwd"], tty, prepare, pid_namespace)
        # From here, and not by the program itself: a container at its limit of processes would
        # not let it fork.
        pid, _ = spawn.start(program, streams.theirs, lambda pid: spawn.admit_to_groups(procs, pid))
    except (spawn.StartFailed, OSError) as error:
        code = error.code if isinstance(error, spawn.StartFailed) else _CANNOT_ENTER
        client.sendall(shim_socket.status({"exitCode": code, "message": str(error)}))
        return
    client.sendall(shim_socket.status({"state": "running"}))
    # With our copies of the program's ends open, we would never read end of file.
    for fd in set(streams.theirs):
        os.close(fd)
    relay = _Relay(client, streams, pid)
    if not request.get("stdin"):
        relay.stdin.close_when_written()
    relay.run()


def _terminal() -> _Streams:
    ours, theirs = os.openpty()
    spawn.resize(ours, {"Height": 24, "Width": 80})  # until the client sends its size
    return _Streams(ours, {ours: shim_socket.STDOUT}, (theirs, theirs, theirs), ours)


def _pipes() -> _Streams:
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    outputs = {out_read: shim_socket.STDOUT, err_read: shim_socket.STDERR}
    return _Streams(in_write, outputs, (in_read, out_write, err_write))


class _Relay:
    def __init__(self, client: socket.socket, streams: _Streams, pid: int) -> None:
        self._client = client
        self._streams = streams
        self._pid = pid
        self._frames = shim_socket.FrameReader()
        self._select = selectors.DefaultSelector()
        self._listen()
        is_terminal = streams.terminal >= 0
        self.stdin = StdinWriter(streams.stdin, self._select, self._listen, terminal=is_terminal)
        for fd in streams.outputs:
            self._select.register(fd, selectors.EVENT_READ, self._from_program)

    def run(self) -> None:
        """Relay until the program has exited and its output is sent, or the client is gone."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while self._streams.outputs:
                for key, events in self._select.select():
                    key.data(key.fd, events)
            _, status = os.waitpid(self._pid, 0)
            code, number = spawn.exit_code(status)
            end = {"exitCode": code, "signal": number, "message": ""}
            self._client.sendall(shim_socket.status(end))
        shim_socket.close_gracefully(self._client, 1.0)

    def _from_program(self, fd: int, _: int) -> None:
        data = spawn.read_output(fd)
        if data:
            self._client.sendall(shim_socket.frame(self._streams.outputs[fd], data))
        elif data is not None:
            self._select.unregister(fd)
            del self._streams.outputs[fd]

    def _from_client(self, _: int, __: int) -> None:
        data = self._client.recv(_CHUNK)
        if not data:  # nobody would read its output any more
            os.kill(self._pid, signal.SIGKILL)
            raise ConnectionResetError
        for channel, payload in self._frames.feed(data):
            if channel == shim_socket.STDIN:
                self.stdin.write(payload)
            elif channel == shim_socket.CLOSE_STDIN:
                self.stdin.close_when_written()
            elif channel == shim_socket.RESIZE and self._streams.terminal >= 0:
                spawn.resize(self._streams.terminal, json.loads(payload))
        if self.stdin.pending:  # the program reads slowly: stop reading from the client
            self._select.unregister(self._client)

    def _listen(self) -> None:
        self._select.register(self._client, selectors.EVENT_READ, self._from_client)
