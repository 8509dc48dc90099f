"""One exec: a program in a running container, its streams relayed to a socket.

`shim` forks one process for each, so that a client that reads slowly blocks nobody but its own
program. When the client goes away the program is killed; when the program ends, a STATUS frame
with its exit code is the last thing sent. The first is a STATUS frame too, `{"state": "running"}`;
a client sends no input before it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.local.node.standalone import shim_socket, spawn
from muster.local.node.standalone.linux import cgroup, kernel
from muster.local.node.standalone.stdin import StdinWriter

if TYPE_CHECKING:
    import socket

_CHUNK = 64 * 1024
_CANNOT_ENTER = 126


class _Streams(NamedTuple):
    """Our ends: where the program's input goes and where its output comes from; and its own."""

    stdin: int
    outputs: dict[int, int]
    theirs: tuple[int, int, int]
    terminal: int = -1


def serve(client: socket.socket, ask: dict[str, Any], main: int, spec: dict[str, Any]) -> None:
    """Run the program that `ask` describes next to the process `main` of the container with that
    `spec`, within the container's memory, to its end."""
    client.setblocking(True)
    door = cgroup.door(spec.get("memory") or {})

    def at_home() -> list[int]:
        cgroup.enter(door)
        kernel.die_with_parent(signal.SIGKILL)
        return []

    fds = kernel.open_namespaces(main)
    tty = bool(ask.get("tty"))
    cwd = ask.get("cwd") or "/"
    env = spec["env"] | ({"TERM": "xterm"} if tty else {})
    try:
        kernel.enter(fds)
        streams = _terminal(ask) if tty else _pipes()
        program = spawn.Program(ask["argv"], env, cwd, tty, at_home)
        pid, _ = spawn.start(program, streams.theirs)
    except (spawn.StartFailed, OSError) as error:
        code = error.code if isinstance(error, spawn.StartFailed) else _CANNOT_ENTER
        client.sendall(
            shim_socket.message(shim_socket.STATUS, {"exitCode": code, "message": str(error)})
        )
        return
    client.sendall(shim_socket.message(shim_socket.STATUS, {"state": "running"}))
    for fd in set(streams.theirs):
        os.close(fd)
    relay = _Relay(client, streams, pid)
    if not ask.get("stdin"):
        relay.stdin.end()
    relay.run()


def _terminal(ask: dict[str, Any]) -> _Streams:
    ours, theirs = os.openpty()
    spawn.resize(ours, int(ask.get("rows") or 24), int(ask.get("columns") or 80))
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
        """Relay until the program has ended and its output is drained, or the client is gone."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while self._streams.outputs:
                for key, events in self._select.select():
                    key.data(key.fd, events)
            _, status = os.waitpid(self._pid, 0)
            code, number = spawn.exit_code(status)
            self._client.sendall(
                shim_socket.message(
                    shim_socket.STATUS, {"exitCode": code, "signal": number, "message": ""}
                )
            )
        shim_socket.hang_up(self._client, 1.0)

    def _from_program(self, fd: int, _: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose last user is gone
            data = b""
        if data:
            self._client.sendall(shim_socket.frame(self._streams.outputs[fd], data))
            return
        self._select.unregister(fd)
        del self._streams.outputs[fd]

    def _from_client(self, _: int, __: int) -> None:
        data = self._client.recv(_CHUNK)
        if not data:
            os.kill(self._pid, signal.SIGKILL)
            raise ConnectionResetError
        for channel, payload in self._frames.feed(data):
            if channel == shim_socket.STDIN:
                self.stdin.take(payload)
            elif channel == shim_socket.CLOSE_STDIN:
                self.stdin.end()
            elif channel == shim_socket.RESIZE and self._streams.terminal >= 0:
                size = json.loads(payload)
                spawn.resize(self._streams.terminal, size["Height"], size["Width"])
        if self.stdin.full:  # the program reads slowly: hear from the client when it has read
            self._select.unregister(self._client)

    def _listen(self) -> None:
        self._select.register(self._client, selectors.EVENT_READ, self._from_client)
