"""The supervisor of one container: the parent of its process, which writes its log and exit code.

It runs in its own session, with the attempt's directory as its argument, the locked lock file
as descriptor 3 and a listening socket as 4. It reads `spec`, writes `started`, appends to `log`,
and at the end writes `exited`; files are replaced by rename, so a reader sees all of a file or
nothing. It does not need the daemon, which may be restarted at any time. The lock is held exactly
as long as this process lives: the kernel releases it, however the shim ends.

Requests on the socket: `watch` (STATUS frames: running, then exited), `stop` (SIGTERM, after
`grace` seconds SIGKILL), `attach`, and `exec` (in a separate process, see `exec_session`).

As in Kubernetes, only the container's main process gets SIGTERM. But if it is a shell, which dies
of SIGTERM, the programs that it started get SIGTERM and the rest of the grace period: a training
script below `sh -c "cd src && python train.py"` must be able to save a checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from localkube.node.standalone import exec_session, shim_socket, spawn
from localkube.node.standalone.linux import files, kernel, mounts
from localkube.node.standalone.shim_socket import ShimClient
from localkube.node.standalone.spawn import StdinWriter

if TYPE_CHECKING:
    from collections.abc import Container

LOCK, LISTENER = 3, 4
_DRAIN = 1.0
"""Seconds for the last output and the last status, after the container's process has exited."""
_LONGEST_WAIT = 86_400.0
_MAX_DESCRIPTORS = 1 << 20
_PAUSE_ON_FULL_DISK = 1.0
_MAX_MESSAGE = 4096
"""Bytes of a termination message, as in the kubelet: the end of the file."""
_LOG_LIMIT = 64 << 20
_MAX_TEXT = 16 * 1024
# The limits of the kubelet for a termination message from the log.
_MAX_LINES, _MAX_BYTES = 80, 2048
_READ_BACK = 64 * 1024


class Shim:
    def __init__(self, spec: dict[str, Any], listener: socket.socket) -> None:
        self._spec = spec
        self._listener = listener
        self._select = selectors.DefaultSelector()
        self._outputs: dict[int, str] = {}
        self._stdin: StdinWriter | None = None
        self._terminal = -1
        self._clients: set[ShimClient] = set()
        self._sessions: list[int] = []
        self._kill_at: float | None = None
        self._pid = self._handle = 0
        self._children: dict[int, list[int]] = {}
        self._mounts: int | None = None
        self._state: dict[str, Any] = {"state": "starting"}
        self._log = LogWriter("log")

    def run(self) -> None:
        listener = self._listener
        listener.setblocking(False)
        self._select.register(listener, selectors.EVENT_READ, self._accept)
        try:
            self._start()
        except (spawn.StartFailed, OSError) as error:
            if spawn.is_full_disk(error) or pod_has_ended(self._spec):
                _withdraw()
                return
            self._end({"exitCode": 128, "signal": 0, "reason": "StartError", "message": str(error)})
            return
        self._handle = os.pidfd_open(self._pid)
        self._select.register(self._handle, selectors.EVENT_READ, None)  # readable at its exit
        while not self._turn({self._handle}):
            pass
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM:
            self._stop_rest()
        self._after_exit(status)

    def _turn(self, handles: set[int]) -> set[int]:
        """Handle the events that are ready; returns those of the processes that have exited.

        After the grace period they are killed.
        """
        left = None
        if self._kill_at is not None:
            # The kernel counts a timeout in milliseconds and refuses more than 24 days.
            left = min(max(0.0, self._kill_at - time.monotonic()), _LONGEST_WAIT)
        ended = set()
        for key, events in self._select.select(left):
            if key.data is None:
                self._select.unregister(key.fd)
                ended.add(key.fd)
            else:
                key.data(key.fileobj, events)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = None
            for handle in handles - ended:
                _signal(handle, signal.SIGKILL)
        self._sessions = [pid for pid in self._sessions if not os.waitpid(pid, os.WNOHANG)[0]]
        return ended

    def _stop_rest(self) -> None:
        """Stop the programs of a shell that died of SIGTERM, until the grace period ends.

        A program gets SIGTERM when its parent has exited: the parent may have to end its children
        in a certain order. A program that was started later, for instance to upload the last
        checkpoint, is only waited for.
        """
        watched: dict[int, int] = {}
        seen, exited = {self._pid}, {self._pid}
        while self._kill_at is not None:
            for pid in exited:
                for handle in self._children.get(pid, ()):
                    _signal(handle, signal.SIGTERM)
            for pid, handle in in_session(self._pid, seen).items():
                seen.add(pid)
                watched[handle] = pid
                self._select.register(handle, selectors.EVENT_READ, None)
            if not watched:
                return
            exited = {watched.pop(handle) for handle in self._turn(set(watched))}

    def _start(self) -> None:
        # With a terminal the child opens its own streams: the terminal is in the pod's /dev.
        stdio = _null_streams() if self._spec["tty"] else self._pipe_ends()
        self._pid, self._mounts, self._terminal = start_main_process(self._spec, stdio)
        if self._terminal >= 0:
            self._stdin = StdinWriter(
                self._terminal, self._select, self._listen_to_all, terminal=True
            )
            self._read_from(self._terminal, "stdout")
        now = stamp(time.time_ns())
        self._state = {"pid": self._pid, "shim": os.getpid(), "startedAt": now}
        files.write_atomically("started", json.dumps(self._state))
        self._state = {"state": "running"} | self._state
        self._send_status()

    def _pipe_ends(self) -> tuple[int, int, int]:
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self._read_from(out_read, "stdout")
        self._read_from(err_read, "stderr")
        if not self._spec["stdin"]:
            return os.open(os.devnull, os.O_RDONLY), out_write, err_write
        in_read, in_write = os.pipe()
        self._stdin = StdinWriter(in_write, self._select, self._listen_to_all)
        return in_read, out_write, err_write

    def _read_from(self, fd: int, stream: str) -> None:
        self._outputs[fd] = stream
        self._select.register(fd, selectors.EVENT_READ, self._output)

    def _output(self, fd: Any, _: int) -> None:
        data = spawn.read_output(fd)
        if data is None:
            return
        if not data:
            self._select.unregister(fd)
            del self._outputs[fd]
            return
        stream = self._outputs[fd]
        self._log.write(stream, data)
        channel = shim_socket.STDOUT if stream == "stdout" else shim_socket.STDERR
        frame = shim_socket.frame(channel, data)
        for client in list(self._clients):
            if client.attached:
                client.send(frame)

    def _accept(self, _: Any, __: int) -> None:
        connection, _address = self._listener.accept()
        self._clients.add(ShimClient(connection, self._select, self._on_frame, self._on_close))

    def _on_close(self, client: ShimClient) -> None:
        self._clients.discard(client)
        if client.typing:
            self._input_ended()

    def _input_ended(self) -> None:
        """A client has closed its input; others may attach, unless the container has
        `stdinOnce`."""
        if self._stdin is not None and self._spec.get("stdin_once"):
            self._stdin.close_when_written()

    def _on_frame(self, client: ShimClient, channel: int, payload: bytes) -> None:
        if channel == shim_socket.STDIN and self._stdin is not None:
            self._stdin.write(payload)
            if self._stdin.pending:
                client.listen(False)
        elif channel == shim_socket.CLOSE_STDIN:
            self._input_ended()
        elif channel == shim_socket.RESIZE and self._terminal >= 0:
            spawn.resize(self._terminal, json.loads(payload))
        elif channel == shim_socket.REQUEST:
            self._serve(client, json.loads(payload))

    def _listen_to_all(self) -> None:
        """Read from clients again: the program has read all of the input."""
        for client in self._clients:
            client.listen(True)

    def _serve(self, client: ShimClient, request: dict[str, Any]) -> None:
        match request["op"]:
            case "watch":
                client.watching = True
                client.send(shim_socket.status(self._state))
            case "attach":
                client.watching = client.attached = True
                client.typing = bool(request.get("stdin"))
            case "stop":
                self._stop(float(request["grace"]))
            case "exec":
                self._exec(client, request)
            case _:
                client.close()

    def _stop(self, grace: float) -> None:
        deadline = time.monotonic() + grace
        if self._kill_at is None and grace > 0:
            self._children = children_in_session(self._pid)
            _signal(self._handle, signal.SIGTERM)
        self._kill_at = min(deadline, self._kill_at or deadline)  # a later stop may only shorten it

    def _exec(self, client: ShimClient, request: dict[str, Any]) -> None:
        connection = client.release()
        pid = os.fork()
        if pid == 0:
            # The lock and the pipes would otherwise stay open as long as this exec runs.
            stdin = [self._stdin.fd] if self._stdin is not None and self._stdin.fd >= 0 else []
            for fd in (LOCK, LISTENER, self._log.fileno(), *self._outputs, *stdin):
                os.close(fd)
            try:
                exec_session.serve(connection, request, self._pid, self._spec)
            finally:
                os._exit(0)
        self._sessions.append(pid)
        connection.close()

    def _after_exit(self, status: int) -> None:
        finished = stamp(time.time_ns())
        kill_all(self._pid, self._mounts)
        # The pipes may still hold the last output. A process that escaped never closes them.
        deadline = time.monotonic() + _DRAIN
        while self._outputs and time.monotonic() < deadline:
            for key, events in self._select.select(deadline - time.monotonic()):
                if key.data is not None:
                    key.data(key.fileobj, events)
        code, number = spawn.exit_code(status)
        limits = self._spec["limits"]
        message = files.read_end("termination-log", _MAX_MESSAGE).decode(errors="replace")
        if code and not message and self._spec.get("message_from_log"):
            message = last_lines("log") or last_lines("log.1")
        oom_killed = code != 0 and spawn.killed_for_memory(limits)
        spawn.remove_groups(limits)
        reason = "OOMKilled" if oom_killed else "Error" if code else "Completed"
        self._end(
            {"exitCode": code, "signal": number, "reason": reason, "message": message}
            | {"finishedAt": finished}
        )

    def _end(self, end: dict[str, Any]) -> None:
        end.setdefault("finishedAt", stamp(time.time_ns()))
        files.write_atomically("exited", json.dumps(end))
        self._state = {"state": "exited"} | end
        self._send_status()
        for client in list(self._clients):
            client.flush(_DRAIN)

    def _send_status(self) -> None:
        for client in list(self._clients):
            if client.watching:
                client.send(shim_socket.status(self._state))


def _withdraw() -> None:
    """Remove this attempt after a while: neither a full disk nor the end of the pod's first process
    is a failure of the container.

    The node then makes the attempt again.
    """
    time.sleep(_PAUSE_ON_FULL_DISK)
    folder, number = os.path.split(os.getcwd())
    os.rename(os.getcwd(), os.path.join(folder, f".{number}"))


def _null_streams() -> tuple[int, int, int]:
    null = os.open(os.devnull, os.O_RDWR)
    return null, null, null


def main() -> int:
    os.chdir(sys.argv[1])
    # Nothing but SIGKILL may end a shim before its container.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, waitpid has no exit code
    for fd in (LOCK, LISTENER):
        os.set_inheritable(fd, False)
    os.closerange(LISTENER + 1, _MAX_DESCRIPTORS)  # descriptors of the daemon
    spec = json.loads(files.read("spec"))
    Shim(spec, socket.socket(fileno=LISTENER)).run()
    return 0


def in_session(leader: int, known: Container[int] = ()) -> dict[int, int]:
    """PID to pidfd of other processes in the session of a main process, which may have exited.

    A process of `exec` has its own session.
    """
    handles: dict[int, int] = {}
    for pid in kernel.pids():
        with contextlib.suppress(OSError):  # it has exited
            if pid != leader and pid not in known and os.getsid(pid) == leader:
                handles[pid] = os.pidfd_open(pid)
    return handles


def children_in_session(leader: int) -> dict[int, list[int]]:
    """The pidfds of the children of each process in the session of a main process."""
    children: dict[int, list[int]] = {}
    for pid, handle in in_session(leader).items():
        children.setdefault(kernel.parent(pid), []).append(handle)
    return children


def _signal(handle: int, number: signal.Signals) -> None:
    """Send a signal to a process, unless it is gone."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


def kill_all(leader: int, mounts: int | None) -> None:
    """Kill every process of the container."""
    for _ in range(20):  # a process may fork while we read /proc
        left = [pid for pid in kernel.pids() if _owned(pid, leader, mounts)]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def _owned(pid: int, leader: int, mounts: int | None) -> bool:
    """Whether a process belongs to the container: by its mount namespace, else by its session.

    The open descriptor keeps the mount namespace alive. Otherwise the kernel could give its number
    to a new namespace, and we would kill the processes of another pod.
    """
    if mounts is None or kernel.same_namespace(mounts, "self"):
        with contextlib.suppress(OSError):
            return os.getsid(pid) == leader
        return False
    return kernel.same_namespace(mounts, pid)


def start_main_process(
    spec: dict[str, Any], stdio: tuple[int, int, int]
) -> tuple[int, int | None, int]:
    """Start it in the pod's namespaces, in its own root directory.

    Returns its PID; its mount namespace, or None if the kernel killed it early, at its memory
    limit; and the other end of its terminal, -1 without one. Its ends of the streams are closed
    here: else we would never read end of file.
    """
    fds = kernel.open_namespaces(spec["pause"]) if "pause" in spec else {}
    if pod_has_ended(spec) or ("pause" in spec and not {"pid", "mnt"} <= fds.keys()):
        raise ProcessLookupError(errno.ESRCH, "the pod's first process has exited")
    pid_namespace, pods_mounts = fds.pop("pid", -1), fds.pop("mnt", -1)
    shim = os.getpid()

    def prepare() -> list[int]:
        # The control groups are entered first: the pod's mounts do not show them.
        spawn.admit_to_groups(spawn.open_groups(spec["limits"]), 0)
        kernel.enter(fds)
        # After the user namespace, which clears it. A child of a killed shim must not go on: it
        # would make the pod's directories again after they were removed.
        kernel.die_with_parent(signal.SIGKILL, shim)
        if pods_mounts >= 0:
            pod = (spec["pod"], pods_mounts)
            own = mounts.build(spec["root"], spec["steps"], spec["hidden"], spec["own"], pod)
        else:
            own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        return [own, _own_terminal()] if spec["tty"] else [own]

    argv, env, cwd = spec["argv"], spec["env"], spec["cwd"]
    program = spawn.Program(argv, env, cwd, spec["tty"], prepare, pid_namespace)
    pid, descriptors = spawn.start(program, stdio)
    for fd in {*stdio, *fds.values(), pid_namespace, pods_mounts} - {-1}:
        os.close(fd)
    terminal = descriptors[1] if spec["tty"] and descriptors else -1
    return pid, descriptors[0] if descriptors else None, terminal


def pod_has_ended(spec: dict[str, Any]) -> bool:
    """Whether the pod's first process is gone. Another process may have its PID by now."""
    if "pause" not in spec:  # without namespaces
        return False
    same = kernel.start_time(spec["pause"]) == spec["pause_started"]
    return not same or kernel.is_exiting(spec["pause"])


def _own_terminal() -> int:
    """Move our streams to a new terminal of the container's /dev; returns its other end."""
    controller, terminal = os.openpty()
    for fd in (0, 1, 2):
        os.dup2(terminal, fd)
    return controller


class LogWriter:
    """The log file of one container. One record per line, as in the kubelet's logs:

        2026-01-02T03:04:05.000000000Z stdout F text

    F ends a line of the program; P is a part of a line that continues in the next record. A full
    file is renamed to `.1`, which is overwritten.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - open as long as the shim lives

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, stream: str, data: bytes) -> None:
        """Append bytes just read from `stream`. A full disk must not stop the program."""
        lines = records(stream, data, time.time_ns())
        with contextlib.suppress(OSError):
            if self._file.tell() + len(lines) > _LOG_LIMIT:
                os.replace(self._path, f"{self._path}.1")
                self._file.close()
                self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115
            self._file.write(lines)


def stamp(nanoseconds: int) -> str:
    """RFC 3339 with nine digits, UTC."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


def records(stream: str, data: bytes, nanoseconds: int) -> bytes:
    """The records for bytes just read from `stream`."""
    head = f"{stamp(nanoseconds)} {stream} ".encode()
    *lines, rest = data.split(b"\n")
    out = [_record(head, b"F ", line) for line in lines]
    if rest:
        out.append(_record(head, b"P ", rest))
    return b"".join(out)


def _record(head: bytes, tag: bytes, text: bytes) -> bytes:
    pieces = [text[i : i + _MAX_TEXT] for i in range(0, len(text), _MAX_TEXT)] or [b""]
    parts = [head + b"P " + piece + b"\n" for piece in pieces[:-1]]
    return b"".join([*parts, head + tag + pieces[-1] + b"\n"])


def last_lines(path: str) -> str:
    """The end of the program's output, up to the size that a pod's status may have."""
    data = files.read_end(path, _READ_BACK)
    records = data.split(b"\n")[:-1]
    complete = records if len(data) < _READ_BACK else records[1:]  # the first one may be cut
    parts = [record.split(b" ", 3) for record in complete]
    lines = b"".join(text + (b"\n" if tag == b"F" else b"") for _, _, tag, text in parts)
    tail = b"".join(lines.splitlines(keepends=True)[-_MAX_LINES:])
    return tail[-_MAX_BYTES:].decode(errors="replace")
