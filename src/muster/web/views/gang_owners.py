"""From the name of a gang, as the scheduler publishes it, to the job that it belongs to."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from muster.contract.gang_dialects import PDB, gang_named_by, single_pod_gang
from muster.web.views.pod_owners import Owner, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.objects.core import Pod


class GangOwners:
    """The owners of gangs, and the pods of each owner that wait for a node."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self.waiting: dict[Owner, list[Pod]] = {}
        """By owner: the pods without a node."""
        self._pods = pods
        for pod in pods:
            if not pod.spec.node_name and not pod.finished:
                self.waiting.setdefault(owner_of(pod), []).append(pod)

    def of(self, dialect: str, gang: str) -> Owner:
        """The owner of a published gang; a gang without pods stands for itself."""
        owner = self._of_waiting.get((dialect, gang)) or self._of_all.get((dialect, gang))
        if owner is not None:
            return owner
        namespace, _, name = gang.rpartition("/")
        return Owner(namespace, "", name)

    @cached_property
    def _of_waiting(self) -> dict[tuple[str, str], Owner]:
        return _owners(pod for pods in self.waiting.values() for pod in pods)

    @cached_property
    def _of_all(self) -> dict[tuple[str, str], Owner]:
        """Slow with thousands of pods, and only for gangs of which no pod waits."""
        return _owners(self._pods)


def _owners(pods: Iterable[Pod]) -> dict[tuple[str, str], Owner]:
    owners: dict[tuple[str, str], Owner] = {}
    for pod in pods:
        owner = owner_of(pod)
        gang = gang_named_by(pod) or single_pod_gang(pod)
        owners[gang.dialect, str(gang)] = owner
        # The gang of a budget has the name of the pods' controller.
        owners.setdefault((PDB.name, f"{owner.namespace}/{owner.name}"), owner)
    return owners
