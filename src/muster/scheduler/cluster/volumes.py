"""Volume claims, volumes and storage classes, as the watches last reported them.

A bound claim ties its pods to the nodes that reach its volume. A claim that is bound only once a
node is known (WaitForFirstConsumer) leaves the choice to the trial: a node where an existing volume
suits it, or a node where one can be provisioned. `chosen` remembers choices until the API server
reports them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import Key
from muster.api.storage import NO_PROVISIONER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster.api.core import Pod
    from muster.api.storage import CsiNode, PersistentVolume, StorageClass, VolumeClaim
    from muster.scheduler.cluster.nodes import Mask

READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class VolumeChoice(NamedTuple):
    """What a claim gets: a node, and the volume, or none if one is to be made."""

    node: str
    volume: str = ""


class Volumes:
    """What is known of storage; `version` grows with every change."""

    def __init__(self) -> None:
        self.chosen: dict[Key, VolumeChoice] = {}
        """Choices that are being written, until the claim or the volume says so itself."""
        self._claimed: dict[Key, dict[str, PersistentVolume]] = {}
        """Volumes that name a claim as their own, by claim."""
        self._candidates: dict[Key, tuple[int, list[PersistentVolume]]] = {}
        self.claims: dict[Key, VolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.limits: dict[str, dict[str, int]] = {}
        """By driver and node, how many volumes can be attached."""
        self.version = 0
        self.reach: dict[str, tuple[tuple[int, int], PersistentVolume, Mask]] = {}
        """Nodes from which each volume can be reached, cached until nodes change."""

    def put_claim(self, key: Key, claim: VolumeClaim | None) -> None:
        self.version += 1
        choice = self.chosen.get(key)
        if choice and (claim is None or claim.bound or claim.selected == choice.node):
            del self.chosen[key]
        if claim is None:
            self.claims.pop(key, None)
        else:
            self.claims[key] = claim

    def put_volume(self, name: str, volume: PersistentVolume | None) -> None:
        self.version += 1
        old = self.volumes.pop(name, None)
        if old is not None and old.owner in self._claimed:
            self._claimed[old.owner].pop(name, None)
        if volume is None:
            self.reach.pop(name, None)
            return
        self.volumes[name] = volume
        if volume.owner is not None:
            self._claimed.setdefault(volume.owner, {})[name] = volume
            if self.chosen.get(volume.owner, VolumeChoice("")).volume == name:
                del self.chosen[volume.owner]

    def put_class(self, name: str, storage: StorageClass | None) -> None:
        self.version += 1
        if storage is None:
            self.classes.pop(name, None)
        else:
            self.classes[name] = storage

    def put_csi_node(self, name: str, node: CsiNode | None) -> None:
        self.version += 1
        for driver in list(self.limits):
            self.limits[driver].pop(name, None)
            if not self.limits[driver]:
                del self.limits[driver]
        for item in node.spec.drivers if node is not None else ():
            if item.allocatable is not None and item.allocatable.count is not None:
                self.limits.setdefault(item.name, {})[name] = item.allocatable.count

    def waits(self, claim: VolumeClaim) -> bool:
        """Whether a claim gets its volume only once its pod has a node."""
        storage = self.classes.get(claim.spec.storage_class_name)
        late = storage is not None and storage.volume_binding_mode == "WaitForFirstConsumer"
        return late and not claim.bound and not claim.spec.volume_name

    def problem_of(self, pod: Pod) -> str:
        """Why no node could run this pod; empty if storage is no obstacle."""
        for name in claims_of(pod):
            claim = self.claims.get(Key(pod.metadata.namespace, name))
            if claim is None:
                return f"its claim {name} does not exist"
            if claim.metadata.deletion_timestamp is not None:
                return f"its claim {name} is being deleted"
            if claim.bound and claim.spec.volume_name not in self.volumes:
                return f"the volume {claim.spec.volume_name} of its claim {name} does not exist"
            if not claim.bound and not self.waits(claim):
                return f"its claim {name} is not bound to a volume yet"
        return ""

    def waiting(self, namespace: str, claims: Iterable[str]) -> list[VolumeClaim]:
        """Those of the claims for which a volume is yet to be chosen or made."""
        return [claim for claim in self.known(namespace, claims) if self.waits(claim)]

    def candidates(self, claim: VolumeClaim) -> list[PersistentVolume]:
        """Volumes that a waiting claim could get, the smallest first."""
        key = claim.metadata.key
        cached = self._candidates.get(key)
        if cached is None or cached[0] != self.version:
            cached = self._candidates[key] = (self.version, self._find(claim))
        return cached[1]

    def promised(self, claim: VolumeClaim) -> PersistentVolume | None:
        """The volume that a waiting claim has been given, and is not bound to yet."""
        choice = self.chosen.get(claim.metadata.key)
        if choice is not None:
            return self.volumes.get(choice.volume)
        claimed = self._claimed.get(claim.metadata.key, {}).values()
        return next((volume for volume in claimed if volume.is_claimed_by(claim)), None)

    def _find(self, claim: VolumeClaim) -> list[PersistentVolume]:
        choice = self.chosen.get(claim.metadata.key)
        if choice is not None:
            return [self.volumes[choice.volume]] if choice.volume in self.volumes else []
        ours = self.promised(claim)
        if ours is not None or claim.selected:
            return [] if ours is None else [ours]
        taken = {choice.volume for choice in self.chosen.values()}
        suited = (v for v in self.volumes.values() if v.suits(claim))
        free = [volume for volume in suited if volume.metadata.name not in taken]
        return sorted(free, key=lambda volume: (volume.size, volume.metadata.name))

    def choose(self, choices: Mapping[Key, VolumeChoice]) -> None:
        """These are being written: the volumes are not for others."""
        self.version += 1
        self.chosen.update(choices)

    def not_chosen(self, key: Key) -> None:
        """A choice could not be written."""
        self.version += 1
        self.chosen.pop(key, None)

    def can_be_made(self, claim: VolumeClaim) -> bool:
        """Whether something makes volumes of the claim's class."""
        storage = self.classes.get(claim.spec.storage_class_name)
        return storage is not None and storage.provisioner != NO_PROVISIONER

    def pinned(self, claim: VolumeClaim) -> str:
        """The node that a waiting claim has been given; empty if none."""
        choice = self.chosen.get(claim.metadata.key)
        return choice.node if choice is not None else claim.selected

    def exclusive(self, namespace: str, claims: Iterable[str]) -> list[Key]:
        """Those of the claims that only one pod may use at a time."""
        known = self.known(namespace, claims)
        return [
            claim.metadata.key for claim in known if READ_WRITE_ONCE_POD in claim.spec.access_modes
        ]

    def handles(self, namespace: str, claims: Iterable[str]) -> list[tuple[str, str]]:
        """The volumes behind the claims, as driver and handle; one to be made goes by its claim."""
        found = []
        for claim in self.known(namespace, claims):
            volume = self.volumes.get(claim.spec.volume_name)
            storage = self.classes.get(claim.spec.storage_class_name)
            if volume is not None and volume.spec.csi is not None:
                found.append((volume.spec.csi.driver, volume.spec.csi.volume_handle))
            elif volume is None and storage is not None:
                found.append((storage.provisioner, f"claim {claim.metadata.key}"))
        return found

    def couple(self, namespace: str, claims: tuple[str, ...]) -> bool:
        """Whether one pod's use of these claims decides where the next may go."""
        limited = any(driver in self.limits for driver, _ in self.handles(namespace, claims))
        alone = bool(self.exclusive(namespace, claims))
        return limited or alone or bool(self.waiting(namespace, claims))

    def known(self, namespace: str, claims: Iterable[str]) -> Iterator[VolumeClaim]:
        """The claims of these names that exist."""
        found = (self.claims.get(Key(namespace, name)) for name in claims)
        return (claim for claim in found if claim is not None)


def claims_of(pod: Pod) -> tuple[str, ...]:
    """The claims a pod uses, those made for it alone included."""
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return tuple(names)
