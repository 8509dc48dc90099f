"""Probes, hooks and sidecars of real pods."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kubekit.objects.kinds import EVENTS, PODS
from kubekit.objects.meta import Key
from tests.localkube.node.local_node import LocalNode, Raw, needs_namespaces, wait_for
from tests.localkube.node.pod_builders import container, manifest
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, needs_namespaces]

QUICK = {"periodSeconds": 1, "failureThreshold": 1}
SERVE = """
import http.server, os
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.path.exists("/gate" + self.path) else 503)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("0.0.0.0", 8080), Answer).serve_forever()
"""


@pytest.fixture
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gate")


def gated(gate: Path, *words: str, **fields: Any) -> Raw:
    """A pod whose container sees the gate's files."""
    spec = {
        name: fields.pop(name) for name in ("restartPolicy", "initContainers") if name in fields
    }
    mounts = [{"name": "gate", "mountPath": "/gate"}]
    return manifest(
        "p",
        container("main", *words, volumeMounts=mounts, **fields),
        volumes=[{"name": "gate", "hostPath": {"path": str(gate)}}],
        **spec,
    )


def ready(pod: Raw) -> bool:
    conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
    container_status = pod["status"].get("containerStatuses", [{}])[0]
    assert conditions.get("Ready") == conditions.get("ContainersReady")
    return conditions.get("Ready") == "True" and container_status["ready"]


async def events(local: LocalNode, reason: str, words: str) -> bool:
    listing = await local.client.list(EVENTS, "default")
    return any(e.reason == reason and words in e.message for e in listing.items)


async def test_a_pod_is_ready_while_its_http_probe_succeeds(local: LocalNode, gate: Path) -> None:
    probe = {"httpGet": {"port": "web", "path": "/ready"}, **QUICK}
    ports = [{"name": "web", "containerPort": 8080}]
    await local.run(gated(gate, "python", "-c", SERVE, readinessProbe=probe, ports=ports))
    pod = await local.phase("p", "Running")
    assert not ready(pod)
    await wait_for(lambda: events(local, "Unhealthy", "statuscode: 503"), "the event")

    (gate / "ready").touch()
    await local.until("p", ready, "ready")
    (gate / "ready").unlink()
    await local.until("p", lambda p: not ready(p), "no longer ready")

    assert (await local.pod("p"))["status"]["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.parametrize(
    "handler",
    [
        {"exec": {"command": ["test", "-e", "/gate/alive"]}},
        {"tcpSocket": {"port": 9}},
    ],
)
async def test_a_container_that_fails_its_liveness_probe_is_restarted(
    local: LocalNode, gate: Path, handler: Raw
) -> None:
    (gate / "alive").touch()
    script = "echo started >> /gate/starts; sleep 1000"
    probe = handler | QUICK | {"initialDelaySeconds": 1}
    await local.run(gated(gate, "sh", "-c", script, livenessProbe=probe, restartPolicy="Always"))
    await local.phase("p", "Running")
    if "exec" in handler:
        (gate / "alive").unlink()

    def restarted(pod: Raw) -> bool:
        status = pod["status"]["containerStatuses"][0]
        return bool(status["restartCount"] == 1 and "running" in status["state"])

    pod = await local.until("p", restarted, "restarted")
    last = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert (last["exitCode"], last["signal"]) == (143, 15)
    starts = "started\nstarted\n"
    await eventually(lambda: (gate / "starts").read_text() == starts, what="the second start")
    killed = "Container main failed liveness probe, will be restarted"
    await wait_for(lambda: events(local, "Killing", killed), "the event")


async def test_hooks_run_after_the_start_and_before_sigterm(local: LocalNode, gate: Path) -> None:
    script = (
        "trap 'echo term >> /gate/order; exit 0' TERM; touch /gate/up; "
        "until [ -e /gate/order ]; do sleep 0.01; done; while :; do sleep 0.05; done"
    )
    greet = "until [ -e /gate/up ]; do sleep 0.01; done; echo hello > /gate/order"
    lifecycle = {
        "postStart": {"exec": {"command": ["sh", "-c", greet]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo bye >> /gate/order"]}},
    }
    await local.run(gated(gate, "sh", "-c", script, lifecycle=lifecycle))
    await local.until("p", lambda p: p["status"].get("conditions") and ready(p), "ready")

    await local.client.delete(PODS, Key("default", "p"), grace=20)
    await local.gone("p")

    assert (gate / "order").read_text() == "hello\nbye\nterm\n"


async def test_a_failed_post_start_hook_stops_the_container(local: LocalNode, gate: Path) -> None:
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo no way; exit 3"]}}}
    await local.run(gated(gate, "sleep", "1000", lifecycle=hook))

    assert (await local.ended("p"))["exitCode"] == 143
    await wait_for(lambda: events(local, "FailedPostStartHook", "no way"), "the event")


async def test_a_sidecar_starts_before_the_main_container_and_stops_after_it(
    local: LocalNode, gate: Path
) -> None:
    side = (
        "trap 'ls /gate > /gate/seen-at-end; exit 0' TERM; touch /gate/side; "
        "while :; do sleep 0.02; done"
    )
    probe = {"exec": {"command": ["test", "-e", "/gate/side"]}, "periodSeconds": 1}
    mounts = [{"name": "gate", "mountPath": "/gate"}]
    sidecar = container(
        "side", "sh", "-c", side, restartPolicy="Always", startupProbe=probe, volumeMounts=mounts
    )
    script = "test -e /gate/side && touch /gate/main-is-done"
    await local.run(gated(gate, "sh", "-c", script, initContainers=[sidecar]))

    assert (await local.ended("p"))["exitCode"] == 0
    assert "main-is-done" in (gate / "seen-at-end").read_text()
    pod = await local.pod("p")
    assert pod["status"]["phase"] == "Succeeded"
    assert "terminated" in pod["status"]["initContainerStatuses"][0]["state"]


async def test_run_as_user_is_ignored_and_an_event_says_so(local: LocalNode) -> None:
    await local.run(
        manifest("p", container("main", "id", "-u"), securityContext={"runAsUser": 1234})
    )

    assert (await local.ended("p"))["exitCode"] == 0
    assert int(await local.log("p")) in (0, os.geteuid())
    await wait_for(lambda: events(local, "RunAsUserIgnored", "1234"), "the event")
