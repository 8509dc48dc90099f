"""Objects and requests that are meant to do harm, sent with a valid token.

Each must be refused or must do no harm. All objects are in one namespace, which is deleted at the
end.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

from kubekit.client.blocking_client import BlockingClient
from kubekit.client.request import JSON, Request
from kubekit.errors import MusterError
from kubekit.objects.kinds import CONFIG_MAPS, NAMESPACES, PODS
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import AlreadyExists, ApiError, NotFound
from tests.e2e.local_cluster import LocalCluster

NAMESPACE = "hostile"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
PATCHES = "application/json-patch+json"


class Hostile:
    """`send` sends one hostile request by number; `KINDS` says how many there are."""

    def __init__(self, local: LocalCluster, random: Random) -> None:
        self._local = local
        self._random = random
        self._count = 0

    def prepare(self) -> None:
        with self._local.client() as client, contextlib.suppress(AlreadyExists):
            client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})

    def send(self) -> str:
        """Send one of the requests and return its name and the answer's status."""
        self._count += 1
        name = self._random.choice(sorted(self._kinds()))
        try:
            with self._local.client() as client:
                self._delete_finished_pods(client)
                self._kinds()[name](client)
        except ApiError as error:
            return f"{name}: {error.status}"
        except (MusterError, OSError) as error:
            return f"{name}: {error}"
        return f"{name}: accepted"

    def _delete_finished_pods(self, client: BlockingClient) -> None:
        """As a user must whose disk they fill: also finished pods keep their files."""
        for pod in client.list(PODS, NAMESPACE).items:
            if pod.finished:
                with contextlib.suppress(NotFound):
                    client.delete(PODS, pod.metadata.key)

    def _kinds(self) -> dict[str, Callable[[BlockingClient], None]]:
        return {
            "patch that doubles": self._doubling_patch,
            "deep object": self._deep_object,
            "owners in a cycle": self._owner_cycle,
            "endless grace period": lambda c: self._pod(
                c, {"terminationGracePeriodSeconds": 10**18}
            ),
            "NUL in a mount path": lambda c: self._pod(c, {}, mount="/a\0b"),
            "memory limit of one byte": lambda c: self._pod(c, {}, memory="1"),
            "state as image": lambda c: self._pod(c, {}, image=str(self._local.home)),
            "link out of a volume": self._link,
            "large termination message": lambda c: self._pod(
                c, {}, "truncate -s 1T /dev/termination-log"
            ),
            "full volume": lambda c: self._pod(c, {}, "dd if=/dev/zero of=/empty/x bs=1M"),
            "endless log": lambda c: self._pod(c, {"activeDeadlineSeconds": 10}, "yes"),
            "many processes": lambda c: self._pod(
                c, {"activeDeadlineSeconds": 10}, "for i in $(seq 300); do sleep 100 & done; wait"
            ),
            "job that is no job": self._job,
            "not JSON": lambda c: self._send(c, "POST", f"{CORE}/configmaps", b"{" * 100),
            "long selector": lambda c: self._send(
                c, "GET", f"{CORE}/pods?labelSelector=" + "a," * 3000
            ),
        }

    def _send(
        self,
        client: BlockingClient,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> None:
        client.send(Request(method, path, (), body, content_type, timeout=20))

    def _create(self, client: BlockingClient, path: str, body: Raw) -> None:
        self._send(client, "POST", path, json.dumps(body).encode())

    def _doubling_patch(self, client: BlockingClient) -> None:
        name = f"patched-{self._count}"
        client.create(
            CONFIG_MAPS,
            {"metadata": {"name": name}, "data": {"a": "x" * 1000}},
            namespace=NAMESPACE,
        )
        patch = [{"op": "add", "path": "/data/b", "value": {}}]
        patch += [{"op": "copy", "from": "/data", "path": f"/data/c{i}"} for i in range(20)]
        path = f"{CORE}/configmaps/{name}"
        self._send(client, "PATCH", path, json.dumps(patch).encode(), content_type=PATCHES)

    def _deep_object(self, client: BlockingClient) -> None:
        body = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
        self._send(client, "POST", f"{CORE}/configmaps", body)

    def _owner_cycle(self, client: BlockingClient) -> None:
        """Two objects that own each other, deleted in the foreground."""
        names = [f"cycle-{self._count}-{side}" for side in "ab"]
        uids = [
            client.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace=NAMESPACE)
            for name in names
        ]
        for name, owner in zip(names, reversed(uids), strict=True):
            reference = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner.metadata.name,
                "uid": owner.metadata.uid,
                "blockOwnerDeletion": True,
            }
            patch = {"metadata": {"ownerReferences": [reference]}}
            client.patch(CONFIG_MAPS, Key(NAMESPACE, name), patch)
        client.delete(CONFIG_MAPS, Key(NAMESPACE, names[0]), propagation="Foreground")

    def _link(self, client: BlockingClient) -> None:
        """A link to the cluster's state in a volume, which a second container mounts by subPath."""
        spec: Raw = {
            "restartPolicy": "Never",
            "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [
                _container(f"ln -s {self._local.home} /v/link", [{"name": "v", "mountPath": "/v"}])
            ],
            "containers": [
                _container(
                    "rm -f /s/planted",
                    [{"name": "v", "mountPath": "/s", "subPath": "link"}],
                    "second",
                )
            ],
        }
        self._create(client, f"{CORE}/pods", {"metadata": {"name": self._name()}, "spec": spec})

    def _pod(
        self,
        client: BlockingClient,
        spec: Raw,
        command: str = "sleep 5",
        *,
        mount: str = "/empty",
        memory: str = "",
        image: str = "python:3.12",
    ) -> None:
        container = _container(command, [{"name": "v", "mountPath": mount}]) | {"image": image}
        if memory:
            container["resources"] = {"limits": {"memory": memory}}
        body = {
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "20Mi"}}],
            **spec,
        }
        self._create(client, f"{CORE}/pods", {"metadata": {"name": self._name()}, "spec": body})

    def _job(self, client: BlockingClient) -> None:
        spec = {"tfReplicaSpecs": {"Worker": {"replicas": -(2**40), "template": ["no", {}]}}}
        path = f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/tfjobs"
        body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": spec}
        self._create(client, path, {**body, "metadata": {"name": self._name()}})

    def _name(self) -> str:
        return f"hostile-{self._count}"


def _container(command: str, mounts: list[Raw], name: str = "main") -> Raw:
    shell = ["sh", "-c", command]
    return {"name": name, "image": "python:3.12", "command": shell, "volumeMounts": mounts}


def planted(home: Path) -> Path:
    """A file in the cluster's state that no pod may remove."""
    file = home / "planted"
    file.write_text("still here")
    return file
