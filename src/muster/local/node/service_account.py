"""How programs in pods reach the API: its address, its CA, and service account tokens.

`with_token_volume` adds the volume that Kubernetes adds to every pod. `ServiceAccountTokens` writes
the tokens of all volumes and renews each after 80 % of its lifetime, at most after a day. The times
are saved beside the pod, so a restarted daemon continues to renew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.kinds import SERVICE_ACCOUNTS
from muster.errors import MissingReference, NotFound
from muster.local.node.config_maps_and_secrets import ROOT_CA
from muster.local.node.pod import VolumeMount
from muster.local.node.standalone.linux import files
from muster.local.node.volumes.atomic_writer import make_readable
from muster.local.node.volumes.volume_sources import (
    ConfigMapFiles,
    DownwardFile,
    DownwardFiles,
    FieldRef,
    KeyPath,
    ProjectedFiles,
    ProjectedSource,
    ServiceAccountToken,
    Volume,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from muster.api.meta import Raw
    from muster.kube.client import Client
    from muster.local.node.pod import Container, Pod

TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access"
_LIFETIME = 3607
"""Seconds. Kubernetes uses the same odd number, to tell the tokens that it adds to every pod from
tokens that a pod asks for."""
_MAX_AGE = 24 * 3600.0
_RENEW_AFTER = 0.8

_CONTENTS = (
    ProjectedSource(
        service_account_token=ServiceAccountToken("token", expiration_seconds=_LIFETIME)
    ),
    ProjectedSource(config_map=ConfigMapFiles(ROOT_CA, items=(KeyPath("ca.crt", "ca.crt"),))),
    ProjectedSource(
        downward_api=DownwardFiles(
            (DownwardFile("namespace", field_ref=FieldRef("metadata.namespace")),)
        )
    ),
)


@dataclass(frozen=True)
class ApiAddress:
    """The address of the API as pods see it, and the CA that verifies it."""

    host: str
    port: int
    ca: bytes

    def variables(self, *, host_network: bool) -> dict[str, str]:
        """Environment variables for clients. Pods on the host's network use loopback."""
        host, port = "127.0.0.1" if host_network else self.host, str(self.port)
        return {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
        }


def with_token_volume(pod: Pod, account: Raw) -> Pod:
    """The pod with its account's token, unless the pod or the account disables it."""
    automount = pod.spec.automount_service_account_token
    if automount is None:
        automount = account.get("automountServiceAccountToken", True)
    # A container that mounts its own volume at the token's path keeps it.
    if not automount or all(map(_mounts_token, pod.all_containers)):
        return pod
    volume = Volume(name=_VOLUME, projected=ProjectedFiles(_CONTENTS))
    spec = replace(
        pod.spec,
        volumes=(*pod.spec.volumes, volume),
        containers=tuple(map(_with_mount, pod.spec.containers)),
        init_containers=tuple(map(_with_mount, pod.spec.init_containers)),
    )
    return replace(pod, spec=spec)


def _mounts_token(container: Container) -> bool:
    return any(mount.mount_path.rstrip("/") == TOKEN_DIRECTORY for mount in container.volume_mounts)


def _with_mount(container: Container) -> Container:
    if _mounts_token(container):
        return container
    mount = VolumeMount(_VOLUME, TOKEN_DIRECTORY, read_only=True)
    return replace(container, volume_mounts=(*container.volume_mounts, mount))


def renew_at(issued: datetime, expires: datetime) -> datetime:
    """When a token should be replaced."""
    lifetime = (expires - issued).total_seconds()
    return issued + timedelta(seconds=min(_RENEW_AFTER * lifetime, _MAX_AGE))


class ServiceAccountTokens:
    """Writes and renews the tokens of pods. `folder` contains one directory per pod."""

    def __init__(self, client: Client, folder: Path, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._folder = folder
        self._clock = clock
        self._due: dict[str, dict[str, datetime]] = {}

    async def with_token_volume(self, pod: Pod) -> Pod:
        """The pod with its account's token, if it gets one."""
        name = pod.spec.service_account_name or "default"
        try:
            account = await self._client.get(SERVICE_ACCOUNTS, pod.metadata.key._replace(name=name))
        except NotFound:
            # The controller may not have created the default account yet: start without it.
            if pod.spec.automount_service_account_token is False or name == "default":
                return pod
            raise MissingReference(f'serviceaccount "{name}" not found') from None
        return with_token_volume(pod, account)

    async def renew(self, pod: Pod, directories: Mapping[str, str]) -> None:
        """Write every token of the pod that is missing or due, to its volume's directory."""
        uid = pod.metadata.uid
        due = self._due_times(uid)
        now = self._clock()
        changed = False
        for volume, source, mode in _token_files(pod):
            file = Path(directories[volume]) / files.inside(source.path)
            if due.get(str(file), now) <= now or not file.exists():
                token, due[str(file)] = await self._request(pod, source)
                make_readable(Path(directories[volume]), files.inside(source.path))
                files.write_atomically(file, token, mode)
                changed = True
        if changed:
            text = json.dumps({file: time.isoformat() for file, time in due.items()})
            files.write_atomically(self._folder / uid / "tokens", text)

    def due_in(self, uid: str) -> float | None:
        """Seconds until the pod's next renewal; None if it has no tokens."""
        due = self._due_times(uid)
        return (min(due.values()) - self._clock()).total_seconds() if due else None

    def forget(self, uid: str) -> None:
        self._due.pop(uid, None)

    def _due_times(self, uid: str) -> dict[str, datetime]:
        if uid not in self._due:
            saved = files.read_json(self._folder / uid / "tokens")
            self._due[uid] = {file: datetime.fromisoformat(time) for file, time in saved.items()}
        return self._due[uid]

    async def _request(self, pod: Pod, source: ServiceAccountToken) -> tuple[str, datetime]:
        """A new token, and when to renew it."""
        meta, issued = pod.metadata, self._clock()
        # Bound to the pod: the API rejects the token once the pod is deleted.
        reference = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [source.audience] if source.audience else [],
                "expirationSeconds": source.expiration_seconds,
                "boundObjectRef": reference,
            },
        }
        name = pod.spec.service_account_name or "default"
        try:
            response = await self._client.create(
                SERVICE_ACCOUNTS, request, namespace=meta.namespace, subresource="token", name=name
            )
        except NotFound:
            raise MissingReference(f'serviceaccount "{name}" not found') from None
        expires = datetime.fromisoformat(response["status"]["expirationTimestamp"])
        return response["status"]["token"], renew_at(issued, expires)


def _token_files(pod: Pod) -> Iterator[tuple[str, ServiceAccountToken, int]]:
    """The tokens in the pod's volumes: the volume's name, the token, the mode of the file."""
    for volume in pod.spec.volumes:
        if volume.projected is not None:
            for source in volume.projected.sources:
                if source.service_account_token is not None:
                    yield volume.name, source.service_account_token, volume.projected.default_mode
