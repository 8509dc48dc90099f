"""How programs in pods reach the API: its address, its CA, and service account tokens.

`with_token_volume` adds the volume that Kubernetes adds to every pod. `ServiceAccountTokens` writes
the tokens of all volumes and renews each after 80 % of its lifetime, at most after a day. The times
are saved beside the pod, so a restarted daemon continues to renew.
A token that the API refuses is renewed at once.

The lifetime of a token is a matter of the machine's clock, which may be set and which goes on while
the machine sleeps. So a token is due by the clock or by monotonic time, whichever comes first, and
at once when the difference between the two changes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from kubekit.objects.kinds import SERVICE_ACCOUNTS
from kubekit.request_errors import NotFound
from localkube.node.config_maps_and_secrets import ROOT_CA
from localkube.node.pod import (
    ConfigMapFiles,
    DownwardFile,
    DownwardFiles,
    FieldRef,
    KeyPath,
    MissingReference,
    ProjectedFiles,
    ProjectedSource,
    ServiceAccountToken,
    Volume,
    VolumeMount,
)
from localkube.node.standalone.linux import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kubekit.client.client import Client
    from kubekit.objects.meta import Raw
    from localkube.node.pod import Container, Pod

log = logging.getLogger(__name__)

TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access"
_LIFETIME = 3607
"""Seconds. Kubernetes uses the same odd number, to tell the tokens that it adds to every pod from
tokens that a pod asks for."""
_CLOCK_CHECK = 10.0
_NEW = 2.0
"""Seconds in which a refusal is not the fault of a token that was just written."""
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
_MAX_AGE = 24 * 3600.0
_RENEW_AFTER = 0.8
MAX_DRIFT = 30.0
"""Seconds by which the two clocks may drift apart before a token counts as due."""


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


@dataclass
class ServiceAccountTokens:
    """Writes and renews the tokens of pods."""

    _client: Client
    _folder: Path
    """Contains one directory per pod."""
    _clock: Callable[[], datetime]
    _monotonic: Callable[[], float] = time.monotonic
    _renewals: dict[str, dict[str, Renewal]] = field(default_factory=dict, init=False)

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
        renewals = self._renewals_of(uid)
        changed = False
        for volume, source, mode in _token_files(pod):
            file = Path(directories[volume]) / files.inside(source.path)
            renewal = renewals.get(str(file))
            if renewal is None or renewal.left(self._now()) <= 0 or not file.exists():
                token, at = await self._request(pod, source)
                renewals[str(file)] = Renewal(at, self._now())
                files.write_atomically(file, token)
                file.chmod(mode)
                changed = True
        if changed:
            text = json.dumps({file: each.at.isoformat() for file, each in renewals.items()})
            files.write_atomically(self._folder / uid / "tokens", text)

    def due_in(self, uid: str) -> float | None:
        """Seconds until the pod's next renewal; None if it has no tokens."""
        now = self._now()
        return min((each.left(now) for each in self._renewals_of(uid).values()), default=None)

    def refused(self, uid: str) -> bool:
        """The API refused a token of this pod: all of its tokens are due, unless they are new."""
        renewals, now = self._renewals.get(uid, {}), self._now()
        if all(now.monotonic - each.written.monotonic < _NEW for each in renewals.values()):
            return False  # a program that uses an old token, or a pod that has none
        self._renewals[uid] = {f: each._replace(at=now.wall) for f, each in renewals.items()}
        return True

    async def watch_clock(self, wake: Callable[[str], None]) -> None:
        """Wake every pod with tokens when the clock was set, until cancelled."""
        offset = self._now().offset
        while True:
            await asyncio.sleep(_CLOCK_CHECK)
            moved = self._now().offset - offset
            if abs(moved) > MAX_DRIFT:
                log.info("the clock was set by %+.0f s: renewing the tokens of pods", moved)
                offset += moved
                for uid in list(self._renewals):
                    wake(uid)

    def forget(self, uid: str) -> None:
        self._renewals.pop(uid, None)

    def _now(self) -> Clocks:
        return Clocks(self._clock(), self._monotonic())

    def _renewals_of(self, uid: str) -> dict[str, Renewal]:
        if uid not in self._renewals:
            saved, now = files.read_json(self._folder / uid / "tokens"), self._now()
            self._renewals[uid] = {
                file: Renewal(datetime.fromisoformat(at), now) for file, at in saved.items()
            }
        return self._renewals[uid]

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


def renew_at(issued: datetime, expires: datetime) -> datetime:
    """When a token should be replaced."""
    lifetime = (expires - issued).total_seconds()
    return issued + timedelta(seconds=min(_RENEW_AFTER * lifetime, _MAX_AGE))


class Renewal(NamedTuple):
    """When a token is due, and when it was written."""

    at: datetime
    written: Clocks

    def left(self, now: Clocks) -> float:
        """Seconds until the token is due, by either clock."""
        if abs(now.offset - self.written.offset) > MAX_DRIFT:
            return 0.0  # the clock was set: the token may be expired, or not valid yet
        by_clock = (self.at - now.wall).total_seconds()
        lifetime = (self.at - self.written.wall).total_seconds()
        return min(by_clock, self.written.monotonic + lifetime - now.monotonic)


class Clocks(NamedTuple):
    """The machine's clock and monotonic time, read together."""

    wall: datetime
    monotonic: float

    @property
    def offset(self) -> float:
        return self.wall.timestamp() - self.monotonic
