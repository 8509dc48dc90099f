"""ConfigMaps, Secrets and volume claims that a pod refers to.

When a container starts they are read from the API itself, because a watch may lag behind an object
that was just created. While it runs, `VolumeFreshness` compares resource versions to tell whether
the pod's volumes are out of date. The pod's own labels and annotations count too: the downward API
shows them.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from muster.api.kinds import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from muster.api.meta import Key, Object
from muster.errors import NotFound
from muster.local.node.env import PodContext
from muster.local.node.volumes.volume_sources import HostPath  # noqa: TC001 - decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from muster.api.kinds import PartialObjectMetadata
    from muster.kube.client import Client
    from muster.kube.watch.informer import Informer
    from muster.kube.watch.informer_cache import Change
    from muster.local.node.machine.capacity import NodeSpec
    from muster.local.node.pod import Pod
    from muster.local.node.volumes.volume_sources import Volume

ROOT_CA = "kube-root-ca.crt"


class _ClaimSpec(Object, frozen=True):
    volume_name: str = ""


class _Claim(Object, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


class _VolumeSpec(Object, frozen=True):
    host_path: HostPath | None = None
    local: HostPath | None = None


class _Volume(Object, frozen=True):
    spec: _VolumeSpec = _VolumeSpec()


_CLAIMS = PERSISTENT_VOLUME_CLAIMS.read_as(_Claim)
_VOLUMES = PERSISTENT_VOLUMES.read_as(_Volume)


def config_maps(pod: Pod) -> set[str]:
    """The names of all ConfigMaps that the pod refers to."""
    return {name for kind, name in _references(pod) if kind == "config" and name}


def secrets(pod: Pod) -> set[str]:
    """The names of all Secrets that the pod refers to."""
    return {name for kind, name in _references(pod) if kind == "secret" and name}


def in_volumes(pod: Pod) -> set[tuple[str, str]]:
    """The objects in the pod's volumes: "config" or "secret", and the name."""
    return {reference for volume in pod.spec.volumes for reference in _of_volume(volume)}


def _references(pod: Pod) -> Iterator[tuple[str, str]]:
    for container in pod.all_containers:
        for bulk in container.env_from:
            if bulk.config_map_ref is not None:
                yield "config", bulk.config_map_ref.name
            if bulk.secret_ref is not None:
                yield "secret", bulk.secret_ref.name
        for variable in container.env:
            source = variable.value_from
            if source is not None and source.config_map_key_ref is not None:
                yield "config", source.config_map_key_ref.name
            if source is not None and source.secret_key_ref is not None:
                yield "secret", source.secret_key_ref.name
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


class ReferenceReader:
    """`root_ca` is used in place of its ConfigMap, which the controller may not have made yet."""

    def __init__(
        self, client: Client, nodes: list[NodeSpec], host_address: str, root_ca: str
    ) -> None:
        self._client = client
        self._resources = {node.name: node.resources for node in nodes}
        self._host = host_address
        self._root_ca = root_ca

    async def read(self, pod: Pod, address: str) -> PodContext:
        """Everything that the pod's fields refer to; missing objects are left out."""
        namespace = pod.metadata.namespace
        maps: dict[str, dict[str, str]] = {}
        binaries: dict[str, dict[str, str]] = {}
        for name in sorted(config_maps(pod)):
            if name == ROOT_CA:
                maps[name] = {"ca.crt": self._root_ca}
                continue
            try:
                config_map = await self._client.get(CONFIG_MAPS, Key(namespace, name))
            except NotFound:
                continue
            maps[name], binaries[name] = config_map.data, config_map.binary_data
        values: dict[str, dict[str, str]] = {}
        for name in sorted(secrets(pod)):
            with contextlib.suppress(NotFound):
                values[name] = (await self._client.get(SECRETS, Key(namespace, name))).data
        node = self._resources.get(pod.spec.node_name, {})
        claims = await self._claims(pod)
        return PodContext(address, self._host, maps, binaries, values, claims, node)

    async def _claims(self, pod: Pod) -> dict[str, HostPath]:
        """The directories of the pod's claims that are bound to volumes on this machine."""
        paths = {}
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            with contextlib.suppress(NotFound):
                claim = await self._client.get(_CLAIMS, Key(pod.metadata.namespace, name))
                bound = await self._client.get(_VOLUMES, Key("", claim.spec.volume_name))
                path = bound.spec.host_path or bound.spec.local
                if path is not None:
                    paths[name] = path
        return paths


class ReferenceInformers(NamedTuple):
    """The objects that volumes are made of, metadata only."""

    config_maps: Informer[PartialObjectMetadata]
    secrets: Informer[PartialObjectMetadata]

    def on_change(self, pods: Informer[Pod], wake: Callable[[Key], None]) -> None:
        """Call `wake` for every pod with a volume of an object that changes."""

        def changed(kind: str, change: Change[PartialObjectMetadata]) -> None:
            key = change.current.metadata.key
            for pod in pods.all():
                same = pod.metadata.namespace == key.namespace
                if same and (kind, key.name) in in_volumes(pod):
                    wake(pod.metadata.key)

        self.config_maps.subscribe(partial(changed, "config"))
        self.secrets.subscribe(partial(changed, "secret"))


class VolumeFreshness:
    def __init__(self, objects: ReferenceInformers) -> None:
        self._objects = objects
        self._versions: dict[str, tuple[Hashable, ...]] = {}

    def mark_current(self, pod: Pod) -> None:
        """The pod's volumes are about to be written from the current objects, or newer ones."""
        self._versions[pod.metadata.uid] = self._current(pod)

    def is_stale(self, pod: Pod) -> bool:
        """Whether an object in the pod's volumes changed since `mark_current`."""
        return self._versions.get(pod.metadata.uid, ()) != self._current(pod)

    def forget(self, uid: str) -> None:
        self._versions.pop(uid, None)

    def _current(self, pod: Pod) -> tuple[Hashable, ...]:
        versions: list[Hashable] = []
        for kind, name in sorted(in_volumes(pod)):
            informer = self._objects.config_maps if kind == "config" else self._objects.secrets
            one = informer.get(Key(pod.metadata.namespace, name))
            versions.append((kind, name, one and one.metadata.resource_version))
        if any(map(_has_pod_fields, pod.spec.volumes)):
            meta = pod.metadata
            versions += [*sorted(meta.labels.items()), *sorted(meta.annotations.items())]
        return tuple(versions)


def _has_pod_fields(volume: Volume) -> bool:
    parts = volume.projected.sources if volume.projected is not None else ()
    return volume.downward_api is not None or any(part.downward_api for part in parts)
