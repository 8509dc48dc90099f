"""ConfigMaps and Secrets that a pod refers to, read when its containers start.

Used by the starter. They are read from the API itself: a watch may be behind what was just made.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.kinds import CONFIG_MAPS, SECRETS, Kind
from muster.api.meta import Key, Object
from muster.errors import NotFound
from muster.local.node.env import Surroundings
from muster.local.node.spec import HostPath  # noqa: TC001 - read when volumes are decoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.kube.client import Client
    from muster.local.node.machine import NodeSpec
    from muster.local.node.spec import Pod, Volume

ROOT_CA = "kube-root-ca.crt"


class ConfigMap(Object, frozen=True):
    """A ConfigMap with all it has; `binary_data` in base64."""

    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class _ClaimSpec(Object, frozen=True):
    volume_name: str = ""


class _Claim(Object, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


class _VolumeSpec(Object, frozen=True):
    host_path: HostPath | None = None
    local: HostPath | None = None


class _Volume(Object, frozen=True):
    spec: _VolumeSpec = _VolumeSpec()


_WHOLE_CONFIG_MAPS = CONFIG_MAPS.read_as(ConfigMap)
_BOUND_CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", _Claim)
_HOST_VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", _Volume, namespaced=False)


def config_maps(pod: Pod) -> set[str]:
    """The names of every ConfigMap the pod refers to."""
    return {name for kind, name in _references(pod) if kind == "config" and name}


def secrets(pod: Pod) -> set[str]:
    """The names of every Secret the pod refers to."""
    return {name for kind, name in _references(pod) if kind == "secret" and name}


def in_volumes(pod: Pod) -> set[tuple[str, str]]:
    """What the pod's volumes are made of: "config" or "secret", and the name."""
    return {found for volume in pod.spec.volumes for found in _of_volume(volume)}


def _references(pod: Pod) -> Iterator[tuple[str, str]]:
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for source in container.env_from:
            if source.config_map_ref is not None:
                yield "config", source.config_map_ref.name
            if source.secret_ref is not None:
                yield "secret", source.secret_ref.name
        for variable in container.env:
            given = variable.value_from
            if given is not None and given.config_map_key_ref is not None:
                yield "config", given.config_map_key_ref.name
            if given is not None and given.secret_key_ref is not None:
                yield "secret", given.secret_key_ref.name
    yield from in_volumes(pod)


def _of_volume(volume: Volume) -> Iterator[tuple[str, str]]:
    if volume.config_map is not None:
        yield "config", volume.config_map.name
    if volume.secret is not None:
        yield "secret", volume.secret.secret_name or volume.secret.name
    for part in volume.projected.sources if volume.projected is not None else ():
        if part.config_map is not None:
            yield "config", part.config_map.name
        if part.secret is not None:
            yield "secret", part.secret.secret_name or part.secret.name


class Sources:
    """`root_ca` stands in for the ConfigMap of that name, which a controller makes elsewhere."""

    def __init__(
        self, client: Client, nodes: list[NodeSpec], host_address: str, root_ca: str
    ) -> None:
        self._client = client
        self._resources = {node.name: node.resources for node in nodes}
        self._host = host_address
        self._root_ca = root_ca

    async def around(self, pod: Pod, address: str) -> Surroundings:
        """Everything the pod's fields may refer to; what does not exist is left out."""
        space = pod.metadata.namespace
        maps: dict[str, dict[str, str]] = {}
        binaries: dict[str, dict[str, str]] = {}
        for name in sorted(config_maps(pod)):
            if name == ROOT_CA:
                maps[name] = {"ca.crt": self._root_ca}
                continue
            try:
                found = await self._client.get(_WHOLE_CONFIG_MAPS, Key(space, name))
            except NotFound:
                continue
            maps[name], binaries[name] = found.data, found.binary_data
        hidden: dict[str, dict[str, str]] = {}
        for name in sorted(secrets(pod)):
            try:
                hidden[name] = (await self._client.get(SECRETS, Key(space, name))).data
            except NotFound:
                continue
        node = self._resources.get(pod.spec.node_name, {})
        claims = await self._claims(pod)
        return Surroundings(address, self._host, maps, binaries, hidden, claims, node)

    async def _claims(self, pod: Pod) -> dict[str, HostPath]:
        """The folders of the pod's claims that are bound to volumes of this machine."""
        found = {}
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            with contextlib.suppress(NotFound):
                claim = await self._client.get(_BOUND_CLAIMS, Key(pod.metadata.namespace, name))
                bound = await self._client.get(_HOST_VOLUMES, Key("", claim.spec.volume_name))
                place = bound.spec.host_path or bound.spec.local
                if place is not None:
                    found[name] = place
        return found
