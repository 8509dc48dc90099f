"""Volume claims, volumes and storage classes, as the watches last reported them.

A bound claim ties its pods to the nodes that reach its volume. A claim that is bound only once a
node is known (WaitForFirstConsumer) leaves the choice to the trial: a node where an existing volume
suits it, or a node where one can be provisioned. `chosen` remembers choices until the API server
reports them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kubekit.objects.meta import Key
from kubekit.objects.storage import (
    CSI_NODES,
    NO_PROVISIONER,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kubekit.objects.core import Pod
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import HasMetadata
    from kubekit.objects.storage import CsiNode, PersistentVolume, StorageClass, VolumeClaim
    from muster.scheduler.cluster.nodes import Mask

READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class VolumeChoice(NamedTuple):
    """The node and the volume chosen for a claim; no volume if one is to be provisioned."""

    node: str
    volume: str = ""


class Volumes:
    """Everything known of storage; `version` grows with every change."""

    def __init__(self) -> None:
        self.chosen: dict[Key, VolumeChoice] = {}
        """Choices that are being written, until the claim or the volume shows them."""
        self._claimed: dict[Key, dict[str, PersistentVolume]] = {}
        """Volumes whose `claimRef` names a claim, by claim."""
        self._candidates: dict[Key, tuple[int, list[PersistentVolume]]] = {}
        self.claims: dict[Key, VolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.limits: dict[str, dict[str, int]] = {}
        """By driver and node, how many volumes can be attached."""
        self.version = 0
        self.reach: dict[str, tuple[tuple[int, int], PersistentVolume, Mask]] = {}
        """Nodes that reach each volume, cached until nodes change."""
        self._put: dict[Kind[Any], Callable[[Key, Any], None]] = {
            VOLUME_CLAIMS: self._put_claim,
            VOLUMES: self._put_volume,
            STORAGE_CLASSES: self._put_class,
            CSI_NODES: self._put_csi_node,
        }

    def put(self, kind: Kind[Any], key: Key, item: HasMetadata | None) -> None:
        """Take over an object of one of the four kinds; None if it is deleted."""
        self.version += 1
        self._put[kind](key, item)

    def _put_claim(self, key: Key, claim: VolumeClaim | None) -> None:
        choice = self.chosen.get(key)
        if choice and (claim is None or claim.bound or claim.selected == choice.node):
            del self.chosen[key]
        self.claims.pop(key, None)
        if claim is not None:
            self.claims[key] = claim

    def _put_volume(self, key: Key, volume: PersistentVolume | None) -> None:
        name = key.name
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

    def _put_class(self, key: Key, storage: StorageClass | None) -> None:
        self.classes.pop(key.name, None)
        if storage is not None:
            self.classes[key.name] = storage

    def _put_csi_node(self, key: Key, node: CsiNode | None) -> None:
        for driver in list(self.limits):
            self.limits[driver].pop(key.name, None)
            if not self.limits[driver]:
                del self.limits[driver]
        for item in node.spec.drivers if node is not None else ():
            if item.allocatable is not None and item.allocatable.count is not None:
                self.limits.setdefault(item.name, {})[key.name] = item.allocatable.count

    def waits(self, claim: VolumeClaim) -> bool:
        """Whether the claim gets its volume only once its pod has a node."""
        storage = self.classes.get(claim.spec.storage_class_name)
        late = storage is not None and storage.volume_binding_mode == "WaitForFirstConsumer"
        return late and not claim.bound and not claim.spec.volume_name

    def problem_of(self, pod: Pod) -> str:
        """Why storage keeps every node from running this pod; empty if it does not."""
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
        """The claims of these names for which a volume is still to be chosen or provisioned."""
        return [claim for claim in self.known(namespace, claims) if self.waits(claim)]

    def candidates(self, claim: VolumeClaim) -> list[PersistentVolume]:
        """Volumes that a waiting claim could get, the smallest first."""
        key = claim.metadata.key
        cached = self._candidates.get(key)
        if cached is None or cached[0] != self.version:
            cached = self._candidates[key] = (self.version, self._find(claim))
        return cached[1]

    def promised(self, claim: VolumeClaim) -> PersistentVolume | None:
        """The volume that is chosen for a waiting claim, which is not bound to it yet."""
        choice = self.chosen.get(claim.metadata.key)
        if choice is not None:
            return self.volumes.get(choice.volume)
        claimed = self._claimed.get(claim.metadata.key, {}).values()
        return next((volume for volume in claimed if volume.is_claimed_by(claim)), None)

    def _find(self, claim: VolumeClaim) -> list[PersistentVolume]:
        promised = self.promised(claim)
        # A claim with a chosen node and no volume waits for its provisioner: no volume suits it.
        if promised is not None or claim.selected or claim.metadata.key in self.chosen:
            return [] if promised is None else [promised]
        taken = {choice.volume for choice in self.chosen.values()}
        suited = (v for v in self.volumes.values() if v.suits(claim))
        free = [volume for volume in suited if volume.metadata.name not in taken]
        return sorted(free, key=lambda volume: (volume.size, volume.metadata.name))

    def choose(self, choices: Mapping[Key, VolumeChoice]) -> None:
        """Reserve the chosen volumes while the choices are being written."""
        self.version += 1
        self.chosen.update(choices)

    def replace_choices(self, choices: dict[Key, VolumeChoice]) -> None:
        """Try other choices, or go back to the former ones."""
        self.version += 1  # never goes back: what was computed for other choices is not used again
        self.chosen = choices

    def not_chosen(self, key: Key) -> None:
        """Forget a choice that could not be written."""
        self.version += 1
        self.chosen.pop(key, None)

    def can_be_made(self, claim: VolumeClaim) -> bool:
        """Whether the claim's storage class has a provisioner."""
        storage = self.classes.get(claim.spec.storage_class_name)
        return storage is not None and storage.provisioner != NO_PROVISIONER

    def pinned(self, claim: VolumeClaim) -> str:
        """The node chosen for a waiting claim; empty if none is."""
        choice = self.chosen.get(claim.metadata.key)
        return choice.node if choice is not None else claim.selected

    def exclusive(self, namespace: str, claims: Iterable[str]) -> list[Key]:
        """The claims of these names that only one pod may use at a time."""
        known = self.known(namespace, claims)
        return [
            claim.metadata.key for claim in known if READ_WRITE_ONCE_POD in claim.spec.access_modes
        ]

    def handles(self, namespace: str, claims: Iterable[str]) -> list[tuple[str, str]]:
        """The claims' volumes as driver and handle; for a volume to come, the claim's name."""
        handles = []
        for claim in self.known(namespace, claims):
            volume = self.volumes.get(claim.spec.volume_name)
            storage = self.classes.get(claim.spec.storage_class_name)
            if volume is not None and volume.spec.csi is not None:
                handles.append((volume.spec.csi.driver, volume.spec.csi.volume_handle))
            elif volume is None and storage is not None:
                handles.append((storage.provisioner, f"claim {claim.metadata.key}"))
        return handles

    def couple(self, namespace: str, claims: tuple[str, ...]) -> bool:
        """Whether a pod that uses these claims restricts where the next one may go."""
        limited = any(driver in self.limits for driver, _ in self.handles(namespace, claims))
        alone = bool(self.exclusive(namespace, claims))
        return limited or alone or bool(self.waiting(namespace, claims))

    def known(self, namespace: str, claims: Iterable[str]) -> Iterator[VolumeClaim]:
        """The claims of these names that exist."""
        named = (self.claims.get(Key(namespace, name)) for name in claims)
        return (claim for claim in named if claim is not None)


def claims_of(pod: Pod) -> tuple[str, ...]:
    """The names of the claims a pod uses, with those of its ephemeral volumes."""
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return tuple(names)
