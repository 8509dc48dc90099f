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
from typing import TYPE_CHECKING, Any

from muster.local.node.standalone import kernel, spawn, wire

if TYPE_CHECKING:
    import socket

_CHUNK = 64 * 1024
_CANNOT_ENTER = 126


class _Streams:
    """Our ends: where the program's input goes and where its output comes from."""

    def __init__(
        self, stdin: int, outputs: dict[int, int], theirs: tuple[int, int, int], terminal: int = -1
    ) -> None:
        self.stdin = stdin
        self.outputs = outputs
        self.theirs = theirs
        self.terminal = terminal
        self.pending = bytearray()
        self.ending = False


def serve(client: socket.socket, ask: dict[str, Any], main: int, base_env: dict[str, str]) -> None:
    """Run the program that `ask` describes next to the process `main`, to its end."""
    client.setblocking(True)
    fds = kernel.open_namespaces(main)
    tty = bool(ask.get("tty"))
    cwd = ask.get("cwd") or "/"
    env = base_env | ({"TERM": "xterm"} if tty else {})
    try:
        kernel.enter(fds)
        streams = _terminal(ask) if tty else _pipes()
        program = spawn.Program(ask["argv"], env, cwd, tty, _at_home)
        pid, _ = spawn.start(program, streams.theirs)
    except (spawn.StartFailed, OSError) as error:
        code = error.code if isinstance(error, spawn.StartFailed) else _CANNOT_ENTER
        client.sendall(wire.message(wire.STATUS, {"exitCode": code, "message": str(error)}))
        return
    client.sendall(wire.message(wire.STATUS, {"state": "running"}))
    for fd in set(streams.theirs):
        os.close(fd)
    if not ask.get("stdin"):
        _close_stdin(streams)
    _Relay(client, streams, pid).run()


def _at_home() -> list[int]:
    kernel.die_with_parent(signal.SIGKILL)
    return []


def _terminal(ask: dict[str, Any]) -> _Streams:
    ours, theirs = os.openpty()
    spawn.resize(ours, int(ask.get("rows") or 24), int(ask.get("columns") or 80))
    return _Streams(ours, {ours: wire.STDOUT}, (theirs, theirs, theirs), ours)


def _pipes() -> _Streams:
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    os.set_blocking(in_write, False)
    outputs = {out_read: wire.STDOUT, err_read: wire.STDERR}
    return _Streams(in_write, outputs, (in_read, out_write, err_write))


def _close_stdin(streams: _Streams) -> None:
    if streams.stdin >= 0 and streams.terminal < 0:
        os.close(streams.stdin)
    streams.stdin = -1


class _Relay:
    def __init__(self, client: socket.socket, streams: _Streams, pid: int) -> None:
        self._client = client
        self._streams = streams
        self._pid = pid
        self._frames = wire.Frames()
        self._select = selectors.DefaultSelector()
        self._select.register(client, selectors.EVENT_READ, self._from_client)
        for fd in streams.outputs:
            self._select.register(fd, selectors.EVENT_READ, self._from_program)

    def run(self) -> None:
        """Relay until the program has ended and its output is drained, or the client is gone."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while self._streams.outputs:
                for key, _ in self._select.select():
                    key.data(key.fd)
            _, status = os.waitpid(self._pid, 0)
            code, number = spawn.exit_code(status)
            self._client.sendall(
                wire.message(wire.STATUS, {"exitCode": code, "signal": number, "message": ""})
            )
        wire.hang_up(self._client, 1.0)

    def _from_program(self, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except OSError:  # a terminal whose last user is gone
            data = b""
        if data:
            self._client.sendall(wire.frame(self._streams.outputs[fd], data))
            return
        self._select.unregister(fd)
        del self._streams.outputs[fd]

    def _from_client(self, _: int) -> None:
        data = self._client.recv(_CHUNK)
        if not data:
            os.kill(self._pid, signal.SIGKILL)
            raise ConnectionResetError
        for channel, payload in self._frames.feed(data):
            if channel == wire.STDIN:
                self._streams.pending += payload
            elif channel == wire.CLOSE_STDIN:
                self._streams.ending = True
            elif channel == wire.RESIZE and self._streams.terminal >= 0:
                size = json.loads(payload)
                spawn.resize(self._streams.terminal, size["Height"], size["Width"])
        self._write()

    def _write(self, _: int = -1) -> None:
        streams = self._streams
        if streams.stdin < 0:
            streams.pending.clear()
            return
        try:
            while streams.pending:
                del streams.pending[: os.write(streams.stdin, streams.pending[:_CHUNK])]
        except BlockingIOError:
            self._watch_stdin()
            return
        except OSError:  # the program closed its standard input
            streams.ending = True
            streams.pending.clear()
        self._finish_writing()

    def _watch_stdin(self) -> None:
        """The program reads slowly: hear from the client again only when it has read."""
        with contextlib.suppress(KeyError):
            self._select.unregister(self._client)
            self._select.register(self._streams.stdin, selectors.EVENT_WRITE, self._write)

    def _finish_writing(self) -> None:
        streams = self._streams
        if self._client not in self._select.get_map():
            if streams.terminal < 0:
                self._select.unregister(streams.stdin)
            self._select.register(self._client, selectors.EVENT_READ, self._from_client)
        if streams.ending:
            _close_stdin(streams)
