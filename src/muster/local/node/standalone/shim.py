"""The supervisor of one container: parent of its process, keeper of its log and exit code.

Started by the daemon's `shims` in a session of its own, with the container's directory as its
argument, the locked lock file as descriptor 3 and a listening socket as 4. It reads `spec`,
writes `started`, appends to `log`, and at the end writes `exited`; both by rename, so a reader
sees all of it or nothing. Nothing here needs the daemon: it may die and come back at any time.
The lock is held exactly as long as this process lives.

On the socket: `watch` (STATUS frames: running, then exited), `stop` (SIGTERM, after `grace`
seconds SIGKILL), `attach`, and `exec` (a process of its own, see `session`).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

from muster.local.node.standalone import exec_session, log_format, shim_socket, spawn
from muster.local.node.standalone.linux import cgroup, files, kernel, mounts
from muster.local.node.standalone.shim_socket import ShimClient
from muster.local.node.standalone.stdin import StdinWriter

LOCK, LISTENER = 3, 4
_CHUNK = 64 * 1024
_LOG_LIMIT = 64 << 20
_DRAIN = 1.0
_MOST_DESCRIPTORS = 1 << 20


class Shim:
    def __init__(self, spec: dict[str, Any], listener: socket.socket) -> None:
        self._spec = spec
        self._listener = listener
        self._select = selectors.DefaultSelector()
        self._outputs: dict[int, str] = {}
        self._inlet: StdinWriter | None = None
        self._terminal = -1
        self._peers: set[ShimClient] = set()
        self._sessions: list[int] = []
        self._kill_at: float | None = None
        self._pid = 0
        self._mounts: int | None = None
        self._state: dict[str, Any] = {"state": "starting"}
        self._log = open("log", "ab", buffering=0)  # noqa: SIM115 - held for life

    def run(self) -> None:
        listener = self._listener
        listener.setblocking(False)
        self._select.register(listener, selectors.EVENT_READ, self._accept)
        try:
            self._start()
        except (spawn.StartFailed, OSError) as error:
            self._end({"exitCode": 128, "signal": 0, "reason": "StartError", "message": str(error)})
            return
        pidfd = os.pidfd_open(self._pid)
        self._select.register(pidfd, selectors.EVENT_READ, None)
        while not self._turn(pidfd):
            pass
        self._after_exit()

    def _turn(self, pidfd: int) -> bool:
        """Handle what is ready; whether the container's process has ended."""
        left = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
        ended = False
        for key, events in self._select.select(left):
            if key.fd == pidfd:
                ended = True
            else:
                key.data(key.fileobj, events)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = None
            os.kill(self._pid, signal.SIGKILL)
        self._sessions = [pid for pid in self._sessions if not os.waitpid(pid, os.WNOHANG)[0]]
        return ended

    def _start(self) -> None:
        spec = self._spec
        outside = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        fds = kernel.open_namespaces(spec["pause"]) if spec.get("pause") else {}
        if "user" in fds:
            kernel.enter({"user": fds.pop("user")})
        if "pid" in fds:
            kernel.enter({"pid": fds.pop("pid")})

        def at_home() -> list[int]:
            cgroup.enter(cgroup.door(spec.get("memory") or {}))
            kernel.die_with_parent(signal.SIGKILL)
            kernel.enter(fds)
            if spec.get("steps"):
                mounts.build(spec["root"], spec["steps"])
            mine = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            return [mine, _own_terminal()] if spec["tty"] else [mine]

        # With a terminal the child brings its own standard streams: of the pod, not the machine.
        program = spawn.Program(spec["argv"], spec["env"], spec["cwd"], False, at_home)
        stdio = _nothing() if spec["tty"] else self._pipe_ends()
        self._pid, (self._mounts, *terminal) = spawn.start(program, stdio)
        if terminal:
            self._terminal = terminal[0]
            self._inlet = StdinWriter(self._terminal, self._select, self._hear_all, terminal=True)
            self._read_from(self._terminal, "stdout")
        for fd in {*stdio, *fds.values()}:
            os.close(fd)
        with contextlib.suppress(PermissionError):  # rootless: the way back is closed
            kernel.enter({"pid": outside})
        now = log_format.stamp(time.time_ns())
        self._state = {"pid": self._pid, "shim": os.getpid(), "startedAt": now}
        files.write_atomically("started", json.dumps(self._state))
        self._state = {"state": "running"} | self._state
        self._tell()

    def _pipe_ends(self) -> tuple[int, int, int]:
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self._read_from(out_read, "stdout")
        self._read_from(err_read, "stderr")
        if not self._spec["stdin"]:
            return os.open(os.devnull, os.O_RDONLY), out_write, err_write
        in_read, in_write = os.pipe()
        self._inlet = StdinWriter(in_write, self._select, self._hear_all)
        return in_read, out_write, err_write

    def _read_from(self, fd: int, stream: str) -> None:
        self._outputs[fd] = stream
        self._select.register(fd, selectors.EVENT_READ, self._output)

    def _output(self, fd: Any, _: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._select.unregister(fd)
            del self._outputs[fd]
            return
        stream = self._outputs[fd]
        self._append(log_format.records(stream, data, time.time_ns()))
        frame = shim_socket.frame(
            shim_socket.STDOUT if stream == "stdout" else shim_socket.STDERR, data
        )
        for peer in list(self._peers):
            if peer.attached:
                peer.send(frame)

    def _append(self, records: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk must not stop the program
            if self._log.tell() + len(records) > _LOG_LIMIT:
                os.replace("log", "log.1")
                self._log.close()
                self._log = open("log", "ab", buffering=0)  # noqa: SIM115
            self._log.write(records)

    def _accept(self, _: Any, __: int) -> None:
        client, _address = self._listener.accept()
        self._peers.add(ShimClient(client, self._select, self._asked, self._left))

    def _left(self, peer: ShimClient) -> None:
        self._peers.discard(peer)
        if peer.typing:
            self._typed_all()

    def _typed_all(self) -> None:
        """Whoever typed is done; another may come, unless the pod wants one only."""
        if self._inlet is not None and self._spec.get("stdin_once"):
            self._inlet.end()

    def _asked(self, peer: ShimClient, channel: int, payload: bytes) -> None:
        if channel == shim_socket.STDIN and self._inlet is not None:
            self._inlet.take(payload)
            if self._inlet.full:
                peer.listen(False)
        elif channel == shim_socket.CLOSE_STDIN:
            self._typed_all()
        elif channel == shim_socket.RESIZE and self._terminal >= 0:
            size = json.loads(payload)
            spawn.resize(self._terminal, size["Height"], size["Width"])
        elif channel == shim_socket.ASK:
            self._answer(peer, json.loads(payload))

    def _hear_all(self) -> None:
        """The program has read what was typed: whoever typed it may go on."""
        for peer in self._peers:
            peer.listen(True)

    def _answer(self, peer: ShimClient, ask: dict[str, Any]) -> None:
        match ask["op"]:
            case "watch":
                peer.watching = True
                peer.send(shim_socket.message(shim_socket.STATUS, self._state))
            case "attach":
                peer.watching = peer.attached = True
                peer.typing = bool(ask.get("stdin"))
            case "stop":
                self._stop(float(ask["grace"]))
            case "exec":
                self._exec(peer, ask)
            case _:
                peer.close()

    def _stop(self, grace: float) -> None:
        deadline = time.monotonic() + grace
        if self._kill_at is None and grace > 0:
            os.kill(self._pid, signal.SIGTERM)
        self._kill_at = min(deadline, self._kill_at or deadline)

    def _exec(self, peer: ShimClient, ask: dict[str, Any]) -> None:
        client = peer.release()
        pid = os.fork()
        if pid == 0:
            typed = [self._inlet.fd] if self._inlet is not None and self._inlet.fd >= 0 else []
            for fd in (LOCK, LISTENER, self._log.fileno(), *self._outputs, *typed):
                os.close(fd)
            try:
                exec_session.serve(client, ask, self._pid, self._spec)
            finally:
                os._exit(0)
        self._sessions.append(pid)
        client.close()

    def _after_exit(self) -> None:
        _, status = os.waitpid(self._pid, 0)
        finished = log_format.stamp(time.time_ns())
        self._kill_rest()
        deadline = time.monotonic() + _DRAIN
        while self._outputs and time.monotonic() < deadline:
            for key, events in self._select.select(deadline - time.monotonic()):
                if key.data is not None:
                    key.data(key.fileobj, events)
        code, number = spawn.exit_code(status)
        memory = self._spec.get("memory") or {}
        words = _last_words()
        if code and not words and self._spec.get("message_from_log"):
            words = log_format.last_words("log") or log_format.last_words("log.1")
        short = code != 0 and cgroup.killed_for_memory(memory)
        cgroup.remove(memory)
        reason = "OOMKilled" if short else "Error" if code else "Completed"
        self._end(
            {"exitCode": code, "signal": number, "reason": reason, "message": words}
            | {"finishedAt": finished}
        )

    def _kill_rest(self) -> None:
        """Kill what the process left behind."""
        for _ in range(20):
            left = [
                pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._owns(pid)
            ]
            if not left:
                return
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)

    def _owns(self, pid: int) -> bool:
        """Whether a process is of this container: by its mounts if it has its own, or session.

        The descriptor keeps the mount namespace from being freed: the kernel gives the number of a
        freed one to the next, and what is killed here would be another pod.
        """
        if self._mounts is None or kernel.same_namespace(self._mounts, "self"):
            return _session(pid) == self._pid
        return kernel.same_namespace(self._mounts, pid)

    def _end(self, outcome: dict[str, Any]) -> None:
        outcome.setdefault("finishedAt", log_format.stamp(time.time_ns()))
        files.write_atomically("exited", json.dumps(outcome))
        self._state = {"state": "exited"} | outcome
        self._tell()
        for peer in list(self._peers):
            peer.flush(_DRAIN)

    def _tell(self) -> None:
        for peer in list(self._peers):
            if peer.watching:
                peer.send(shim_socket.message(shim_socket.STATUS, self._state))


def _nothing() -> tuple[int, int, int]:
    null = os.open(os.devnull, os.O_RDWR)
    return null, null, null


def _own_terminal() -> int:
    """Put ourselves on a new terminal of the file systems we see; the other end of it."""
    other, mine = os.openpty()
    for fd in (0, 1, 2):
        os.dup2(mine, fd)
    spawn.take_terminal()
    return other


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _last_words() -> str:
    """What the program wrote to /dev/termination-log."""
    with contextlib.suppress(OSError), open("termination-log", "rb") as file:
        return file.read()[-4096:].decode(errors="replace")
    return ""


def main() -> int:
    os.chdir(sys.argv[1])
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for fd in (LOCK, LISTENER):
        os.set_inheritable(fd, False)
    os.closerange(LISTENER + 1, _MOST_DESCRIPTORS)  # whatever the daemon had open
    spec = json.loads(files.read("spec"))
    Shim(spec, socket.socket(fileno=LISTENER)).run()
    return 0
