"""ConfigMaps and Secrets that a pod refers to, read when its containers start.

Used by the starter. They are read from the API itself: a watch may be behind what was just made.

Which pods have volumes that are behind the objects they are made of.

Asked by the starter when the pod loop looks at a running pod; `tell_users` wakes that loop when a
ConfigMap or Secret changes. Labels and annotations of the pod itself count too: the downward API
shows them.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from muster.api.kinds import CONFIG_MAPS, SECRETS, Kind
from muster.api.meta import Key, Object
from muster.errors import NotFound
from muster.local.node.env import PodContext
from muster.local.node.pod import HostPath  # noqa: TC001 - read when volumes are decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from muster.api.kinds import PartialObjectMetadata
    from muster.kube.client import Client
    from muster.kube.watch.informer import Informer
    from muster.kube.watch.informer_cache import Change
    from muster.local.node.machine.capacity import NodeSpec
    from muster.local.node.pod import Pod, Volume


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


class ReferenceReader:
    """`root_ca` stands in for the ConfigMap of that name, which a controller makes elsewhere."""

    def __init__(
        self, client: Client, nodes: list[NodeSpec], host_address: str, root_ca: str
    ) -> None:
        self._client = client
        self._resources = {node.name: node.resources for node in nodes}
        self._host = host_address
        self._root_ca = root_ca

    async def around(self, pod: Pod, address: str) -> PodContext:
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
        return PodContext(address, self._host, maps, binaries, hidden, claims, node)

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


class ReferenceInformers(NamedTuple):
    """What volumes are made of, as far as its versions go."""

    config_maps: Informer[PartialObjectMetadata]
    secrets: Informer[PartialObjectMetadata]

    def tell_users(self, pods: Informer[Pod], wake: Callable[[Key], None]) -> None:
        """Call `wake` for every pod that has a volume of an object when that changes."""

        def changed(kind: str, change: Change[PartialObjectMetadata]) -> None:
            key = change.current.metadata.key
            for pod in pods.all():
                near = pod.metadata.namespace == key.namespace
                if near and (kind, key.name) in in_volumes(pod):
                    wake(pod.metadata.key)

        self.config_maps.subscribe(partial(changed, "config"))
        self.secrets.subscribe(partial(changed, "secret"))


class VolumeFreshness:
    def __init__(self, objects: ReferenceInformers) -> None:
        self._objects = objects
        self._seen: dict[str, tuple[Hashable, ...]] = {}

    def note(self, pod: Pod) -> None:
        """The pod's volumes are about to be made from what is there now, or from newer."""
        self._seen[pod.metadata.uid] = self._shown(pod)

    def stale(self, pod: Pod) -> bool:
        """Whether what the pod's volumes show may have changed since the last note."""
        return self._seen.get(pod.metadata.uid, ()) != self._shown(pod)

    def forget(self, uid: str) -> None:
        self._seen.pop(uid, None)

    def _shown(self, pod: Pod) -> tuple[Hashable, ...]:
        found: list[Hashable] = []
        for kind, name in sorted(in_volumes(pod)):
            informer = self._objects.config_maps if kind == "config" else self._objects.secrets
            one = informer.get(Key(pod.metadata.namespace, name))
            found.append((kind, name, one and one.metadata.resource_version))
        if any(map(_shows_the_pod, pod.spec.volumes)):
            meta = pod.metadata
            found += [*sorted(meta.labels.items()), *sorted(meta.annotations.items())]
        return tuple(found)


def _shows_the_pod(volume: Volume) -> bool:
    parts = volume.projected.sources if volume.projected is not None else ()
    return volume.downward_api is not None or any(part.downward_api for part in parts)
