"""A namespace of its own on a server, and the command line pointed there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key, Raw
from muster.cli import main
from muster.contract.job_kinds import TFJOBS

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}


@dataclass
class Place:
    """A namespace of its own on a server, and the command line pointed there."""

    kubeconfig: Path
    namespace: str
    client: BlockingClient
    capture: pytest.CaptureFixture[str]

    def arena(self, *words: str) -> tuple[int, str, str]:
        flags = ["--kubeconfig", str(self.kubeconfig), "-n", self.namespace]
        code = main.run("arena", [*flags, *words])
        out = self.capture.readouterr()
        return code, out.out, out.err

    def job(self, name: str, **status: Any) -> Raw:
        roles = {"Worker": {"replicas": 2, "template": TEMPLATE}}
        body = {"metadata": {"name": name}, "spec": {"tfReplicaSpecs": roles}}
        created = self.client.create(TFJOBS, body, namespace=self.namespace)
        if status:
            self.client.patch(
                TFJOBS, Key(self.namespace, name), {"status": status}, subresource="status"
            )
        return created

    def tensorboard(self, job: str) -> None:
        """A pod of its TensorBoard that is ready."""
        labels = {"release": job, "role": "tensorboard"}
        body = {"metadata": {"name": f"{job}-tensorboard-0", "labels": labels}, **TEMPLATE}
        pods = PODS.read_as(dict)
        self.client.create(pods, body, namespace=self.namespace)
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        key = Key(self.namespace, f"{job}-tensorboard-0")
        self.client.patch(pods, key, {"status": ready}, subresource="status")

    def spec(self, name: str) -> Raw:
        spec: Raw = self.client.get(TFJOBS, Key(self.namespace, name))["spec"]
        return spec

    def names(self) -> list[str]:
        return sorted(j["metadata"]["name"] for j in self.client.list(TFJOBS, self.namespace).items)


def ended(type_: str, when: str = "2026-01-01T00:00:00Z") -> Raw:
    row = {"type": type_, "status": "True", "lastTransitionTime": when}
    return {"conditions": [row], "completionTime": when}


def finish(place: Place, name: str, type_: str) -> None:
    """End the job and delete it at once, as a short time to live does."""
    key = Key(place.namespace, name)
    place.client.patch(TFJOBS, key, {"status": ended(type_)}, subresource="status")
    place.client.delete(TFJOBS, key)
