"""Messages about failures on the node."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubekit import errors
from kubekit.objects.kinds import EVENTS
from localkube.node.pod_events import PodEvents
from localkube.node_interface import ExecOptions
from tests.localkube.node.exec_client import ExecClient
from tests.localkube.node.local_node import LocalNode, Raw, needs_namespaces, wait_for
from tests.localkube.node.pod_builders import NOW, container, make_pod, manifest

OWNER = {"ownerReferences": [{"kind": "TFJob", "name": "j", "uid": "u", "controller": True}]}
SHOW_HOST = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked for", self.headers["Host"], flush=True)
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("0.0.0.0", 8080), Answer).serve_forever()
"""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('10.0.0.2', 80)"), "Connection refused"),
        (FileNotFoundError(2, "gone", b"/bin/x"), "No such file or directory: /bin/x"),
        (ValueError("the container has no port"), "the container has no port"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_system_errors_are_reported_without_numbers_and_reprs(error: Exception, words: str) -> None:
    assert errors.describe(error) == words


class RecordedEvents:
    """A client that records the events it is given."""

    def __init__(self) -> None:
        self.events: list[Raw] = []

    async def create(self, _: object, body: Raw) -> None:
        self.events.append(body)


@pytest.mark.looptime
async def test_events_about_a_whole_job_are_recorded_once_whatever_its_images() -> None:
    client = RecordedEvents()
    events = PodEvents(client, lambda: NOW)  # type: ignore[arg-type]

    for name in ("w-0", "w-1", "ps-0"):
        pod = make_pod(name, meta=OWNER)
        events.record_once_per_owner(pod, "ImageNotPulled", f"{name}: not pulled")
    events.record_once_per_owner(make_pod("bare"), "ImageNotPulled", "bare: not pulled")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await events.run()

    assert [event["message"] for event in client.events] == ["w-0: not pulled", "bare: not pulled"]


class Disconnects(ExecClient):
    async def stdout(self, data: bytes) -> None:
        raise ConnectionResetError("Cannot write to closing transport")


@pytest.mark.slow
@needs_namespaces
async def test_a_client_that_disconnects_ends_only_its_own_program(local: LocalNode) -> None:
    await local.run(manifest("p", container("main", "sleep", "1000")))
    pod = await local.phase("p", "Running")
    talk = ("sh", "-c", "while echo still here; do sleep 0.01; done")

    code = await local.backend.exec(pod, ExecOptions("main", talk), Disconnects(b""))

    assert code == 137
    assert await local.backend.exec(pod, ExecOptions("main", ("true",)), ExecClient(b"")) == 0


@pytest.mark.slow
@needs_namespaces
async def test_a_probe_connects_to_the_pods_address_and_reports_a_refused_connection(
    local: LocalNode,
) -> None:
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    await local.run(
        manifest("serves", container("main", "python", "-c", SHOW_HOST, readinessProbe=probe)),
        manifest("deaf", container("main", "sleep", "1000", readinessProbe=probe)),
    )

    text = await local.says("serves", "asked for")
    address = await local.address("serves")
    assert text.splitlines()[0] == f"asked for {address}:8080"

    async def recorded() -> bool:
        listing = await local.client.list(EVENTS, "default")
        messages = [e.message for e in listing.items if e.reason == "Unhealthy"]
        assert not [message for message in messages if "Errno" in message]
        return any("Connection refused" in message for message in messages)

    await wait_for(recorded, "the event")


@pytest.mark.slow
@needs_namespaces
async def test_a_container_whose_shim_was_killed_finished_at_that_time(
    local: LocalNode,
) -> None:
    await local.run(manifest("p", container("main", "sleep", "1000")))
    pod = await local.phase("p", "Running")
    folder = local.home / "pods" / pod["metadata"]["uid"] / "containers/main/0"
    long_ago = (datetime.now(UTC) - timedelta(hours=1)).timestamp()
    os.utime(folder, (long_ago, long_ago))
    os.kill(_parent(local.pid(pod)), signal.SIGKILL)

    ended = await local.ended("p")

    finished = datetime.fromisoformat(ended["finishedAt"])
    assert datetime.now(UTC) - finished < timedelta(minutes=1)
    assert ended["exitCode"] == 137


def _parent(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])
