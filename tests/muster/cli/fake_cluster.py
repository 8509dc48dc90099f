"""A cluster of a few objects in memory, for golden tests of the output of verbs.

`FakeCluster` answers GETs as an API server would, through the same client code; it records all
other requests in `sent`. `Scene` runs `arena` against it at a fixed time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.request import Request, Response
from kubekit.objects.selectors import parse_labels
from kubekit.request_errors import Forbidden, NotFound
from muster.cli import main
from muster.client import target
from muster.jobs import names

Raw = dict[str, Any]
NOW = datetime(2026, 1, 2, 3, 4, 30, tzinfo=UTC)
_PATH = re.compile(
    r"/apis?(?:/[^/]+)?/v[^/]+(?:/namespaces/(?P<space>[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?"
)


class FakeCluster(BlockingClient):
    """Raw objects by plural. A missing object or plural is a 404.

    Plurals in `forbidden` may not be read. Without `cluster_wide`, only objects of a namespace may.
    """

    def __init__(
        self,
        objects: dict[str, list[Raw]],
        forbidden: Collection[str] = (),
        *,
        cluster_wide: bool = True,
    ) -> None:
        super().__init__(Endpoint.with_token("https://127.0.0.1:1", "t"))
        self.objects, self.forbidden, self.cluster_wide = objects, forbidden, cluster_wide
        self.sent: list[Request] = []

    def send(self, ask: Request) -> Response:
        path = _PATH.fullmatch(ask.path)
        assert path, ask.path
        if ask.method != "GET":
            self.sent.append(ask)
            return Response(200, {}, b"{}")
        plural = path["plural"] if "metrics.k8s.io" not in ask.path else f"{path['plural']}usage"
        if plural in self.forbidden or not (path["space"] or self.cluster_wide):
            raise Forbidden(f"not allowed to read {plural}", status=403)
        if plural not in self.objects:
            raise NotFound(f"no {plural}")
        rows = [row for row in self.objects[plural] if _in(row, path["space"])]
        if path["name"]:
            named = [row for row in rows if row["metadata"]["name"] == unquote(path["name"])]
            if not named:
                raise NotFound(f"no {path['name']}")
            return Response(200, {}, json.dumps(named[0]).encode())
        query = dict(ask.query)
        selector = parse_labels(query.get("labelSelector", ""))
        rows = [row for row in rows if selector.matches(row["metadata"].get("labels") or {})]
        body = {"metadata": {"resourceVersion": "1"}, "items": rows}
        return Response(200, {}, json.dumps(body).encode())


def _in(row: Raw, space: str | None) -> bool:
    return space is None or row["metadata"].get("namespace") == space


@dataclass
class Scene:
    """The objects, and the command line pointed at them."""

    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch
    objects: dict[str, list[Raw]] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    cluster_wide: bool = True
    local: bool = True
    now: datetime = NOW

    def arena(self, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        client = FakeCluster(self.objects, self.forbidden, cluster_wide=self.cluster_wide)
        self.patch.setattr(target.Cluster, "connect", lambda _: client)
        self.patch.setattr(target.Target, "find", lambda _: self.cluster())
        code = main.run("arena", list(words), clock=lambda: self.now)
        out = self.capture.readouterr()
        self.sent = client.sent
        return code, out.out, out.err

    def cluster(self) -> target.Cluster:
        """The cluster that commands use."""
        endpoint = Endpoint.with_token("https://127.0.0.1:1", "t")
        return target.Cluster(endpoint, "test", "a test", local=self.local)


def ago(seconds: int) -> str:
    moment = datetime.fromtimestamp(NOW.timestamp() - seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def job(kind: str, name: str, roles: dict[str, int], *, gpus: int = 0, age: int = 0) -> Raw:
    """A job of these roles, with GPUs for its workers."""
    field_ = {"TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}[kind]
    specs = {}
    for role, count in roles.items():
        limits = {"nvidia.com/gpu": gpus} if role == "Worker" and gpus else {}
        container = {"name": "c", "image": "i", "resources": {"limits": limits}}
        specs[role] = {"replicas": count, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": ago(age),
        },
        "spec": {field_: specs},
        "status": {"conditions": [], "startTime": ago(age)},
    }


def condition(of: Raw, type_: str, message: str = "", *, age: int = 0) -> Raw:
    """The job with this condition alone."""
    row = {"type": type_, "status": "True", "message": message, "lastTransitionTime": ago(age)}
    status = {**of["status"], "conditions": [row]}
    return {**of, "status": status}


def pod(of: Raw, role: str, index: int, phase: str = "Pending", **more: Any) -> Raw:
    """A pod of that job, optionally with `node`, `ip`, `gpus`, `why`, `name` and `age`."""
    kind, name = of["kind"], of["metadata"]["name"]
    state = {"running": {"startedAt": ago(1)}} if phase == "Running" else {"waiting": {}}
    conditions = []
    if "why" in more:
        conditions.append(
            {"type": "PodScheduled", "status": "False", "reason": "U", "message": more["why"]}
        )
    limits = {"nvidia.com/gpu": str(more["gpus"])} if more.get("gpus") else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": more.get("name") or names.replica(name, role, index),
            "namespace": "default",
            "uid": f"uid-{name}-{role}-{index}",
            "creationTimestamp": ago(more.get("age", 0)),
            "labels": names.labels(f"{kind.lower()}-controller", name, role, index),
            "ownerReferences": [
                {"kind": kind, "name": name, "uid": of["metadata"]["uid"], "controller": True}
            ],
        },
        "spec": {
            "nodeName": more.get("node", ""),
            "schedulerName": "muster",
            "containers": [{"name": "c", "resources": {"limits": limits}}],
        },
        "status": {
            "phase": phase,
            "hostIP": more.get("ip", ""),
            "conditions": conditions,
            "containerStatuses": [{"name": "c", "ready": phase == "Running", "state": state}]
            if phase != "Pending"
            else [],
        },
    }
