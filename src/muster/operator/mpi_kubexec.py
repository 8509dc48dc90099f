"""Runs a command in another pod, as `kubectl exec` does: kubexec.py POD CONTAINER COMMAND…

Muster itself does not run this program. The config volume of an MPI launcher carries it, and
kubexec.sh starts it there, with the Python 3 of the image (3.5 and newer, hence no f-strings) and
its standard library alone. It forwards stdin, stdout and stderr through a websocket, and exits with
the command's own exit code: 128 + n if signal n ended the command or this program.
"""

import base64
import json
import os
import select
import signal
import socket
import ssl
import struct
import sys
import time
from urllib.parse import urlencode

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TRIES = 60


class Refused(Exception):
    """The API server answered with something else than a websocket."""

    def __init__(self, status: int, message: str) -> None:
        Exception.__init__(self, message)
        self.status = status


class Lost(Exception):
    """The request was sent and not answered: the command may have started."""


def read(name: str) -> str:
    with open(os.path.join(ACCOUNT, name)) as file:
        return file.read().strip()


def request(host: str, port: int, pod: str, container: str, command: "list[str]") -> bytes:
    """The HTTP request that asks the API server to run the command."""
    query = [("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    if container:
        query.append(("container", container))
    query.extend(("command", word) for word in command)
    namespace = os.environ.get("NAMESPACE") or read("namespace")
    path = "/api/v1/namespaces/" + namespace + "/pods/" + pod + "/exec?" + urlencode(query)
    lines = [
        "GET " + path + " HTTP/1.1",
        "Host: " + host + ":" + str(port),
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io",
        "Authorization: Bearer " + read("token"),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def connect(pod: str, container: str, command: "list[str]") -> "Session":
    """Start the command; returns the session with it."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
    context = ssl.create_default_context(cafile=os.path.join(ACCOUNT, "ca.crt"))
    plain = socket.create_connection((host, port), timeout=30)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock = context.wrap_socket(plain, server_hostname=host)
    sock.sendall(request(host, port, pod, container, command))
    # The API server itself waits half a minute for a node before it answers that it is away.
    sock.settimeout(90)
    answer = b""
    while b"\r\n\r\n" not in answer:
        try:
            chunk = sock.recv(4096)
        except OSError as error:
            raise Lost(str(error)) from error
        if not chunk:
            raise Lost("the API server hung up")
        answer += chunk
    head, _, rest = answer.partition(b"\r\n\r\n")
    status = int(head.split(None, 2)[1])
    if status != 101:
        sock.close()
        message = head.split(b"\r\n")[0] + b" " + rest[:500]
        raise Refused(status, message.decode("utf-8", "replace"))
    sock.settimeout(None)
    return Session(sock, rest, b"v5.channel.k8s.io" in head)


def frame(payload: bytes, opcode: int = 2) -> bytes:
    """A websocket frame, masked as RFC 6455 requires of clients."""
    mask = os.urandom(4)
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    body = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
    return head + mask + body


class Frames:
    """The decoder of websocket frames: `feed` takes bytes and returns complete messages."""

    def __init__(self) -> None:
        self.buffer = b""
        self.parts = b""

    def feed(self, data: bytes) -> "list[tuple[int, bytes]]":
        self.buffer += data
        messages = []  # type: list[tuple[int, bytes]]
        while True:
            message = self.next()
            if message is None:
                return messages
            final, opcode, payload = message
            if opcode >= 8:
                # Control frames are never fragmented, and may come between fragments.
                messages.append((opcode, payload))
                continue
            self.parts += payload
            if final:
                messages.append((2, self.parts))
                self.parts = b""

    def next(self) -> "tuple[bool, int, bytes] | None":
        data = self.buffer
        if len(data) < 2:
            return None
        size, start = data[1] & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(data) < start:
                return None
            size = int.from_bytes(data[2:start], "big")
        if len(data) < start + size:
            return None
        self.buffer = data[start + size :]
        return bool(data[0] & 0x80), data[0] & 0x0F, data[start : start + size]


def exit_code(message: bytes) -> int:
    """The command's exit code, from the Status that ends a session."""
    status = json.loads(message.decode() or "{}")
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    sys.stderr.write(status.get("message", "the command failed") + "\n")
    return 1


class Session:
    """A command in another pod, connected to our own stdin, stdout and stderr."""

    def __init__(self, sock: ssl.SSLSocket, rest: bytes, half_close: bool) -> None:
        self.sock = sock
        self.rest = rest
        self.half_close = half_close
        self.frames = Frames()
        self.open = True
        self.code = 1
        self.inputs = [sock.fileno(), 0]

    def run(self) -> int:
        """Copy both ways until the command ends; returns its exit code."""
        self.take(self.rest)
        while self.open:
            # TLS may have decrypted bytes that select no longer sees on the socket.
            pending = self.sock.pending() > 0
            ready = [self.inputs[0]] if pending else select.select(self.inputs, [], [])[0]
            if 0 in ready:
                self.give(os.read(0, 32768))
            if self.inputs[0] in ready:
                data = self.sock.recv(65536)
                self.open = bool(data)
                self.take(data)
        return self.code

    def give(self, data: bytes) -> None:
        if data:
            # The first byte of a message is its channel; 0 is stdin.
            self.sock.sendall(frame(b"\x00" + data))
            return
        self.inputs.remove(0)
        if self.half_close:  # Only v5 has a frame that closes stdin; with v4 it stays open.
            self.sock.sendall(frame(b"\xff\x00"))

    def take(self, data: bytes) -> None:
        outputs = {1: sys.stdout.buffer, 2: sys.stderr.buffer}
        for opcode, payload in self.frames.feed(data):
            if opcode == 8:
                self.open = False
            # A ping, which must be answered with a pong (10).
            elif opcode == 9:
                self.sock.sendall(frame(payload, 10))
            elif opcode == 2 and payload:
                # Channel 3 carries the Status of the command when it has ended.
                if payload[0] == 3:
                    self.code = exit_code(payload[1:])
                elif payload[0] in outputs:
                    outputs[payload[0]].write(payload[1:])
                    outputs[payload[0]].flush()


def stop(number: int, _: object) -> None:
    """Exit by an exception, so that the session is closed and the command ends as well."""
    sys.exit(128 + number)


def main(arguments: "list[str]") -> int:
    pod, container, command = arguments[0], arguments[1], arguments[2:]
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    for left in range(TRIES, -1, -1):
        try:
            session = connect(pod, container, command)
        except (OSError, Refused, Lost) as error:
            hopeless = isinstance(error, Refused) and error.status in (401, 403)
            # After a lost answer another attempt might run the command twice.
            if not left or hopeless or isinstance(error, Lost):
                sys.stderr.write("kubexec: " + pod + ": " + str(error) + "\n")
                return 255
            time.sleep(1)
        else:
            return finish(session, pod)
    return 255


def finish(session: Session, pod: str) -> int:
    """Run the session to its end. A command that has started is never started again."""
    try:
        return session.run()
    except OSError as error:
        sys.stderr.write("kubexec: " + pod + ": the session was lost: " + str(error) + "\n")
        return 255
    finally:
        session.sock.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
