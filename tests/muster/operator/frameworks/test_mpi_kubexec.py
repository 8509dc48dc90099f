"""The program that starts ranks on workers, run as a script, as a launcher runs it."""

from __future__ import annotations

import ast
import asyncio
import json
import signal
import ssl
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import WSMsgType, web

from muster.operator.frameworks import mpi
from tests.controlplane.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SUCCESS: dict[str, object] = {"status": "Success"}


def ended(code: int) -> dict[str, object]:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


class Server:
    """The exec endpoint of an API server: TLS, a token, websockets with numbered channels."""

    def __init__(self, folder: Path, protocol: str = "v5.channel.k8s.io") -> None:
        self.folder = folder
        self.protocol = protocol
        self.refusals = 0
        self.hangs_up = False
        self.status: dict[str, object] = SUCCESS
        self.requests: list[web.Request] = []
        self.stdin = b""
        self.patient = False
        self.joined = asyncio.Event()
        self.left = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.refusals:
            self.refusals -= 1
            return web.Response(status=400, text="container not found")
        if self.hangs_up:
            assert request.transport is not None
            request.transport.abort()
        socket = web.WebSocketResponse(protocols=[self.protocol])
        await socket.prepare(request)
        await socket.send_bytes(b"\x01out " + b"x" * 70000)
        await socket.send_bytes(b"\x02err")
        await socket.ping()
        if self.patient:
            return await self.outlast(socket)
        if self.protocol.startswith("v5"):
            async for message in socket:
                if message.type != WSMsgType.BINARY or message.data[:1] == b"\xff":
                    break
                self.stdin += message.data[1:]
        await socket.send_bytes(b"\x03" + json.dumps(self.status).encode())
        await socket.close()
        return socket

    async def outlast(self, socket: web.WebSocketResponse) -> web.StreamResponse:
        """A command that runs until its client disconnects."""
        self.joined.set()
        async for _ in socket:
            pass
        self.left.set()
        return socket

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[dict[str, str]]:
        """The environment of a pod that may call this server."""
        authority = Authority()
        pair = authority.server()
        (self.folder / "ca.crt").write_bytes(authority.certificate)
        (self.folder / "token").write_text("secret\n")
        (self.folder / "namespace").write_text("ns")
        (self.folder / "tls.crt").write_bytes(pair.certificate)
        (self.folder / "tls.key").write_bytes(pair.key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/ns/pods/{pod}/exec", self.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            port = runner.addresses[0][1]
            yield {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
        finally:
            await runner.cleanup()

    async def run(self, *command: str, stdin: bytes = b"") -> tuple[int | None, bytes, bytes]:
        """Run the client against this server: exit code, stdout, stderr."""
        async with self.started(*command) as process:
            out, err = await process.communicate(stdin)
        return process.returncode, out, err

    @asynccontextmanager
    async def started(self, *command: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """The client, connected to this server."""
        script = self.folder / "kubexec.py"
        text = mpi.exec_client()
        account = "/var/run/secrets/kubernetes.io/serviceaccount"
        assert account in text
        script.write_text(text.replace(account, str(self.folder)))
        async with self.serving() as environment:
            yield await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                str(script),
                "j-worker-0",
                "mpi",
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
            )


@pytest.mark.parametrize("code", [0, 1, 137])
async def test_kubexec_returns_the_output_and_exit_code_of_the_command(
    tmp_path: Path, code: int
) -> None:
    server = Server(tmp_path)
    server.status = ended(code) if code else SUCCESS

    exit_code, out, err = await server.run("/bin/sh", "-c", "orted -mca a b")

    assert exit_code == code
    assert out == b"out " + b"x" * 70000
    assert err == b"err"
    (request,) = server.requests
    assert request.query.getall("command") == ["/bin/sh", "-c", "orted -mca a b"]
    assert request.query["container"] == "mpi"
    assert request.headers["Authorization"] == "Bearer secret"


async def test_kubexec_forwards_stdin_to_its_end(tmp_path: Path) -> None:
    server = Server(tmp_path)

    exit_code, _, _ = await server.run("cat", stdin=b"y" * 100000)

    assert exit_code == 0
    assert server.stdin == b"y" * 100000


async def test_an_older_server_gets_protocol_v4(tmp_path: Path) -> None:
    server = Server(tmp_path, "v4.channel.k8s.io")
    server.status = ended(3)

    exit_code, _, err = await server.run("x")

    assert exit_code == 3
    assert err == b"err"


@pytest.mark.slow
async def test_a_worker_that_does_not_exist_yet_is_retried(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.refusals = 1

    exit_code, _, _ = await server.run("x")

    assert exit_code == 0
    assert len(server.requests) == 2


async def test_a_command_whose_answer_is_lost_is_not_started_again(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.hangs_up = True

    exit_code, _, err = await server.run("x")

    assert exit_code == 255
    assert err.startswith(b"kubexec: j-worker-0: ")
    assert len(server.requests) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_the_session_and_sets_the_exit_code(
    tmp_path: Path, number: int
) -> None:
    server = Server(tmp_path)
    server.patient = True

    async with server.started("sleep", "9") as process:
        await asyncio.wait_for(server.joined.wait(), 20)
        process.send_signal(number)
        _, err = await asyncio.wait_for(process.communicate(), 20)
        await asyncio.wait_for(server.left.wait(), 20)

    assert process.returncode == 128 + number
    assert b"Traceback" not in err


def test_kubexec_needs_nothing_newer_than_python_3_5() -> None:
    text = mpi.exec_client()

    assert 'f"' not in text
    assert ":=" not in text
    assert ast.parse(text, feature_version=(3, 7)).body
