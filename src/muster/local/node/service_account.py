"""How a pod's programs talk to the API: a token of its service account, the CA, and where it is.

Used by the pod loop. `with_access` adds to a pod the volume that Kubernetes adds; `Tokens` writes
the tokens of any volume and renews each when four fifths of its time, or a day, have passed. When a
token is due is kept beside the pod, so a restarted daemon goes on renewing.
"""

from __future__ import annotations

import json
import os
import posixpath
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.kinds import Kind
from muster.errors import MissingReference, NotFound
from muster.local.node.pod import (
    ConfigMapFiles,
    DownwardFile,
    DownwardFiles,
    FieldRef,
    KeyPath,
    Pod,
    ProjectedFiles,
    ProjectedSource,
    ServiceAccountToken,
    Volume,
    VolumeMount,
)
from muster.local.node.references import ROOT_CA
from muster.local.node.runtime.pod_records import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from muster.api.meta import Raw
    from muster.kube.client import Client
    from muster.local.node.pod import Container

ACCOUNTS: Kind[Raw] = Kind("", "v1", "serviceaccounts", "ServiceAccount", dict)
TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access"
_LIFETIME = 3607
_DAY = 24 * 3600.0
_PART = 0.8

_CONTENTS = (
    ProjectedSource(
        service_account_token=ServiceAccountToken("token", expiration_seconds=_LIFETIME)
    ),
    ProjectedSource(config_map=ConfigMapFiles(ROOT_CA, (KeyPath("ca.crt", "ca.crt"),))),
    ProjectedSource(
        downward_api=DownwardFiles(
            (DownwardFile("namespace", field_ref=FieldRef("metadata.namespace")),)
        )
    ),
)


@dataclass(frozen=True)
class ApiAddress:
    """Where the API is for pods, and what they verify it with."""

    host: str
    port: int
    ca: bytes

    def variables(self, *, host_network: bool) -> dict[str, str]:
        """What clients in a pod look for. On the machine's own network the API is at loopback."""
        host, port = "127.0.0.1" if host_network else self.host, str(self.port)
        return {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
        }


def with_access(pod: Pod, account: Raw) -> Pod:
    """The pod with its account's token, unless the pod or the account does not want it."""
    wanted = pod.spec.automount_service_account_token
    if wanted is None:
        wanted = account.get("automountServiceAccountToken", True)
    everyone = (*pod.spec.init_containers, *pod.spec.containers)
    if not wanted or all(_has(container) for container in everyone):
        return pod
    volume = Volume(name=_VOLUME, projected=ProjectedFiles(_CONTENTS))
    spec = replace(
        pod.spec,
        volumes=(*pod.spec.volumes, volume),
        containers=tuple(map(_given, pod.spec.containers)),
        init_containers=tuple(map(_given, pod.spec.init_containers)),
    )
    return replace(pod, spec=spec)


def _has(container: Container) -> bool:
    return any(mount.mount_path.rstrip("/") == TOKEN_DIRECTORY for mount in container.volume_mounts)


def _given(container: Container) -> Container:
    if _has(container):
        return container
    mount = VolumeMount(_VOLUME, TOKEN_DIRECTORY, read_only=True)
    return replace(container, volume_mounts=(*container.volume_mounts, mount))


def renew_at(made: datetime, expires: datetime) -> datetime:
    """When a token should be replaced by a new one."""
    life = (expires - made).total_seconds()
    return made + timedelta(seconds=min(_PART * life, _DAY))


class ServiceAccountTokens:
    """Writes and renews the tokens of pods. `folder` is where pods are."""

    def __init__(self, client: Client, folder: Path, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._folder = folder
        self._clock = clock
        self._due: dict[str, dict[str, datetime]] = {}

    async def admit(self, pod: Pod) -> Pod:
        """The pod as it is run: with access to the API if its account gives any."""
        name = pod.spec.service_account_name or "default"
        try:
            account = await self._client.get(ACCOUNTS, pod.metadata.key._replace(name=name))
        except NotFound:
            if pod.spec.automount_service_account_token is False or name == "default":
                return pod
            raise MissingReference(f'serviceaccount "{name}" not found') from None
        return with_access(pod, account)

    async def keep(self, pod: Pod, places: Mapping[str, str]) -> None:
        """Write every token of the pod that is missing or due."""
        uid = pod.metadata.uid
        due = self._known(uid)
        now = self._clock()
        late = False
        for name, wanted, mode in _wanted(pod):
            file = _inside(places[name], wanted.path)
            if due.get(str(file), now) <= now or not file.exists():
                token, due[str(file)] = await self._ask(pod, wanted)
                _replace(file, token, mode)
                late = True
        if late:
            text = json.dumps({file: when.isoformat() for file, when in due.items()})
            write_atomically(self._folder / uid / "tokens", text)

    def due_in(self, uid: str) -> float | None:
        """Seconds until `keep` should be called again for a pod; None if it has no tokens."""
        due = self._known(uid)
        return (min(due.values()) - self._clock()).total_seconds() if due else None

    def forget(self, uid: str) -> None:
        self._due.pop(uid, None)

    def _known(self, uid: str) -> dict[str, datetime]:
        if uid not in self._due:
            try:
                told = json.loads((self._folder / uid / "tokens").read_text(encoding="utf-8"))
            except FileNotFoundError:
                told = {}
            self._due[uid] = {file: datetime.fromisoformat(when) for file, when in told.items()}
        return self._due[uid]

    async def _ask(self, pod: Pod, wanted: ServiceAccountToken) -> tuple[str, datetime]:
        """A token, and when it should be replaced."""
        meta, made = pod.metadata, self._clock()
        reference = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [wanted.audience] if wanted.audience else [],
                "expirationSeconds": wanted.expiration_seconds,
                "boundObjectRef": reference,
            },
        }
        name = pod.spec.service_account_name or "default"
        try:
            answer = await self._client.create(
                ACCOUNTS, asked, namespace=meta.namespace, subresource="token", name=name
            )
        except NotFound:
            raise MissingReference(f'serviceaccount "{name}" not found') from None
        expires = datetime.fromisoformat(answer["status"]["expirationTimestamp"])
        return answer["status"]["token"], renew_at(made, expires)


def _wanted(pod: Pod) -> Iterator[tuple[str, ServiceAccountToken, int]]:
    """The tokens that the pod's volumes have: of which volume, which, and with what mode."""
    for volume in pod.spec.volumes:
        if volume.projected is not None:
            for part in volume.projected.sources:
                if part.service_account_token is not None:
                    yield volume.name, part.service_account_token, volume.projected.default_mode


def _inside(folder: str, path: str) -> Path:
    return Path(folder) / posixpath.normpath(f"/{path}").lstrip("/")


def _replace(file: Path, token: str, mode: int) -> None:
    """Readers in the pod see the old token or the new one, never half of one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, token)
    os.chmod(file, mode)
