"""ConfigMaps, Secrets and volume claims that a pod refers to.

When a container starts, `ReferenceReader` reads them with GET requests, because a watch may lag
behind an object that was just created. While the container runs, `VolumeFreshness` compares
resource versions to tell whether the pod's volumes are out of date. The pod's own labels and
annotations count too: the downward API shows them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.kinds import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from kubekit.objects.meta import Key, Object
from kubekit.objects.storage import VolumeClaim
from kubekit.request_errors import NotFound
from localkube.node.env_and_files import PodContext
from localkube.node.pod import HostPath  # noqa: TC001 - decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kubekit.client.client import Client
    from kubekit.objects.kinds import PartialObjectMetadata
    from kubekit.watch.informer import Informer
    from kubekit.watch.informer_cache import Change
    from localkube.node.machine.capacity import NodeSpec
    from localkube.node.pod import ObjectRef, Pod

    Objects = Informer[PartialObjectMetadata]

ROOT_CA = "kube-root-ca.crt"


class _VolumeSpec(Object, frozen=True):
    host_path: HostPath | None = None
    local: HostPath | None = None


class _Volume(Object, frozen=True):
    spec: _VolumeSpec = _VolumeSpec()


_CLAIMS = PERSISTENT_VOLUME_CLAIMS.read_as(VolumeClaim)
_VOLUMES = PERSISTENT_VOLUMES.read_as(_Volume)


class Reference(NamedTuple):
    """An object that a pod refers to: `config` or `secret`, and the name."""

    kind: str
    name: str


def references(pod: Pod) -> set[Reference]:
    """The ConfigMaps and Secrets in the environment and the volumes of the pod."""
    objects = in_volumes(pod)
    for container in pod.with_ephemeral:
        for bulk in container.env_from:
            objects |= _references(bulk.config_map_ref, bulk.secret_ref)
        for source in (variable.value_from for variable in container.env):
            if source is not None:
                objects |= _references(source.config_map_key_ref, source.secret_key_ref)
    return objects


def in_volumes(pod: Pod) -> set[Reference]:
    """The ConfigMaps and Secrets in the pod's volumes."""
    objects = set[Reference]()
    for volume in pod.spec.volumes:
        for source in volume.file_sources:
            objects |= _references(source.config_map, source.secret)
    return objects


def _references(config_map: ObjectRef | None, secret: ObjectRef | None) -> set[Reference]:
    pairs = (("config", config_map), ("secret", secret))
    return {Reference(kind, ref.object_name) for kind, ref in pairs if ref and ref.object_name}


@dataclass(frozen=True)
class ReferenceReader:
    client: Client
    nodes: list[NodeSpec]
    host_address: str
    root_ca: str
    """Used in place of its ConfigMap, which the controller may not have created yet."""

    async def read(self, pod: Pod, address: str) -> PodContext:
        """All objects that the pod's fields refer to; missing objects are left out."""
        namespace = pod.metadata.namespace
        maps: dict[str, dict[str, str]] = {}
        binaries: dict[str, dict[str, str]] = {}
        secrets: dict[str, dict[str, str]] = {}
        for kind, name in sorted(references(pod)):
            with contextlib.suppress(NotFound):  # optional objects may be missing
                if (kind, name) == ("config", ROOT_CA):
                    maps[name] = {"ca.crt": self.root_ca}
                elif kind == "config":
                    config_map = await self.client.get(CONFIG_MAPS, Key(namespace, name))
                    maps[name], binaries[name] = config_map.data, config_map.binary_data
                else:
                    secrets[name] = (await self.client.get(SECRETS, Key(namespace, name))).data
        resources = {node.name: node.resources for node in self.nodes}
        node = resources.get(pod.spec.node_name, {})
        claims = await self.claims(pod)
        return PodContext(address, self.host_address, maps, binaries, secrets, claims, node)

    async def claims(self, pod: Pod) -> dict[str, HostPath]:
        """The directories of the pod's claims that are bound to volumes on this machine."""
        paths = {}
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            with contextlib.suppress(NotFound):
                claim = await self.client.get(_CLAIMS, Key(pod.metadata.namespace, name))
                persistent_volume = await self.client.get(_VOLUMES, Key("", claim.spec.volume_name))
                path = persistent_volume.spec.host_path or persistent_volume.spec.local
                if path is not None:
                    paths[name] = path
        return paths


class VolumeFreshness:
    """Remembers, for every pod, the versions of the objects that its volumes were written from.

    The watches have metadata only, which is all that this needs.
    """

    def __init__(self, config_maps: Objects, secrets: Objects) -> None:
        self._objects = {"config": config_maps, "secret": secrets}
        self._versions: dict[str, tuple[Hashable, ...]] = {}

    def on_change(self, pods: Informer[Pod], wake: Callable[[Key], None]) -> None:
        """Call `wake` for every pod that has a changed object in a volume."""

        def changed(kind: str, change: Change[PartialObjectMetadata]) -> None:
            key = change.current.metadata.key
            for pod in pods.all():
                same_namespace = pod.metadata.namespace == key.namespace
                if same_namespace and (kind, key.name) in in_volumes(pod):
                    wake(pod.metadata.key)

        for kind, informer in self._objects.items():
            informer.subscribe(partial(changed, kind))

    def mark_current(self, pod: Pod) -> None:
        """Remember the current versions.

        Call it before reading the objects: an object that changes during the read is then newer
        than its version here, and the next visit writes it again.
        """
        self._versions[pod.metadata.uid] = self._current(pod)

    def is_stale(self, pod: Pod) -> bool:
        """Whether an object in the pod's volumes changed since `mark_current`."""
        return self._versions.get(pod.metadata.uid, ()) != self._current(pod)

    def forget(self, uid: str) -> None:
        self._versions.pop(uid, None)

    def _current(self, pod: Pod) -> tuple[Hashable, ...]:
        versions: list[Hashable] = []
        for kind, name in sorted(in_volumes(pod)):
            source = self._objects[kind].get(Key(pod.metadata.namespace, name))
            versions.append((kind, name, source and source.metadata.resource_version))
        sources = (source for volume in pod.spec.volumes for source in volume.file_sources)
        if any(source.downward_api is not None for source in sources):
            meta = pod.metadata
            versions += [*sorted(meta.labels.items()), *sorted(meta.annotations.items())]
        return tuple(versions)
