"""`arena models read` that is told to stop before it knows whether its reader exists."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.process_flags import kubeconfig
from tests.muster.client.models.test_runner_pod import CLAIM, job

pytestmark = pytest.mark.slow


class Server(ThreadingHTTPServer):
    """Has one job, and does not answer the creation of a reader before it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.arrived, self.answer = threading.Event(), threading.Event()
        self.deleted: list[Any] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/tfjobs/j"):
            self.respond(200, {**job(CLAIM), "metadata": {**job(CLAIM)["metadata"], "uid": "u"}})
        elif path.endswith("/pods"):
            self.respond(200, {"metadata": {"resourceVersion": "1"}, "items": []})
        else:
            self.respond(404, {"kind": "Status", "reason": "NotFound", "message": "not here"})

    def do_POST(self) -> None:
        body = self.body()
        self.server.arrived.set()
        self.server.answer.wait(60)
        self.respond(201, {**body, "metadata": {**body["metadata"], "uid": "reader"}})

    def do_DELETE(self) -> None:
        self.server.deleted.append((self.path, self.body()["preconditions"]))
        self.respond(200, {})

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def respond(self, code: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.answer.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_answer_to_the_creation_deletes_the_reader(
    server: Server, tmp_path: Path, number: signal.Signals
) -> None:
    config = tmp_path / "config"
    config.write_text(json.dumps(kubeconfig(f"http://127.0.0.1:{server.server_port}", b"")))
    words = ["models", "read", "j", "-n", "team", "--image=i", f"--kubeconfig={config}"]
    command = [sys.executable, "-m", "muster", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        server.arrived.wait(60)
        process.send_signal(number)
        server.answer.set()
        _, err = process.communicate(timeout=60)

    assert (process.returncode, err) == (130, ""), err
    ((path, preconditions),) = server.deleted
    assert "/namespaces/team/jobs/model-reader-tfjob-j" in path
    assert preconditions == {"uid": "reader"}
