"""Which pods have volumes that are behind the objects they are made of.

Asked by the starter when the pod loop looks at a running pod; `tell_users` wakes that loop when a
ConfigMap or Secret changes. Labels and annotations of the pod itself count too: the downward API
shows them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import Key
from muster.local.node import sources

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from muster.api.kinds import Partial
    from muster.kube.informer import Informer
    from muster.kube.store import Change
    from muster.local.node.spec import Pod, Volume


class Objects(NamedTuple):
    """What volumes are made of, as far as its versions go."""

    config_maps: Informer[Partial]
    secrets: Informer[Partial]

    def tell_users(self, pods: Informer[Pod], wake: Callable[[Key], None]) -> None:
        """Call `wake` for every pod that has a volume of an object when that changes."""

        def changed(kind: str, change: Change[Partial]) -> None:
            key = change.current.metadata.key
            for pod in pods.all():
                near = pod.metadata.namespace == key.namespace
                if near and (kind, key.name) in sources.in_volumes(pod):
                    wake(pod.metadata.key)

        self.config_maps.subscribe(partial(changed, "config"))
        self.secrets.subscribe(partial(changed, "secret"))


class Freshness:
    def __init__(self, objects: Objects) -> None:
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
        for kind, name in sorted(sources.in_volumes(pod)):
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
