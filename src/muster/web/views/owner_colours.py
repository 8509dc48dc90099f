"""To whom a pod belongs, and how all pages draw its owner: a colour, a pattern and two letters.

A job keeps its look while it has pods. Its name chooses the colour; only if another job has that
colour and a different one is unused, the job takes that. Jobs of one colour differ in pattern. The
colours of `app.css` are told apart by colour-blind readers; grey is for pods of no job.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.quantity import InvalidQuantity, sum_resources
from muster.contract.gang_dialects import PDB, gang_named_by, single_pod_gang
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.web.views import row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kubekit.objects.core import Pod, Resources


COLOURS, PATTERNS = 7, 3
NO_JOB = "job-7"
_WORD = re.compile(r"[^\W_]+")


class Owner(NamedTuple):
    """The job of a pod; else its controller, the gang that it names, or the pod itself."""

    namespace: str
    kind: str
    """Empty for a gang of pods without a controller."""
    name: str

    @property
    def is_job(self) -> bool:
        """Whether it has a page."""
        return self.kind in JOB_KIND_BY_NAME


def owner_of(pod: Pod) -> Owner:
    metadata = pod.metadata
    references = metadata.owner_references
    # Usually there is one; with thousands of pods the search of `controller` takes its time.
    one = len(references) == 1 and references[0].controller
    controller = references[0] if one else metadata.controller
    if controller is not None:
        return Owner(metadata.namespace, controller.kind, controller.name)
    if gang := gang_named_by(pod):
        return Owner(metadata.namespace, "", gang.name)
    return Owner(metadata.namespace, "Pod", metadata.name)


class Look(NamedTuple):
    colour: int
    pattern: int

    def __str__(self) -> str:
        """The CSS classes."""
        return f"job-{self.colour} pattern-{self.pattern}"


class Looks:
    """The looks of jobs, by owner. Never changed: `with_pods` makes the next one."""

    def __init__(self, looks: Mapping[Owner, Look] | None = None) -> None:
        self._looks = looks or {}

    def with_pods(self, pods: Iterable[Pod]) -> Looks:
        """The looks of all jobs with these pods; jobs without pods are forgotten."""
        present: dict[Owner, None] = {}
        for pod in pods:
            with row_of(pod.metadata.name):
                present[owner_of(pod)] = None
        looks = {owner: look for owner, look in self._looks.items() if owner in present}
        new = sorted(owner for owner in present if owner.is_job and owner not in looks)
        used = Counter(look.colour for look in looks.values())
        for owner in new:
            colour = _preferred(owner)
            if used[colour]:
                others = ((colour + step) % COLOURS for step in range(1, COLOURS))
                colour = next((other for other in others if not used[other]), colour)
            looks[owner] = Look(colour, used[colour] % PATTERNS)
            used[colour] += 1
        return Looks(looks)

    def of(self, owner: Owner) -> str:
        """The CSS classes of the owner's cells."""
        look = self._looks.get(owner)
        if look is None:
            return str(Look(_preferred(owner), 0)) if owner.is_job else NO_JOB
        return str(look)


def _preferred(owner: Owner) -> int:
    # Not `hash`, which differs from process to process.
    return zlib.crc32("/".join(owner).encode()) % COLOURS


@lru_cache(maxsize=16384)
def initials(name: str) -> str:
    """Two letters for a name: `resnet-50` is R5, `bert` is BE."""
    words = _WORD.findall(name)
    letters = words[0][0] + words[1][0] if len(words) > 1 else "".join(words)[:2]
    return letters.upper() or "?"


def requests_of(pod: Pod) -> dict[str, int]:
    """The room of a pod while it runs; a limit without a request counts as the request."""
    spec = pod.spec
    rows: list[Resources] = [
        {**container.resources.limits, **container.resources.requests}
        for container in (
            *spec.containers,
            *(row for row in spec.init_containers if row.restart_policy == "Always"),
        )
    ]
    try:
        return sum_resources((*rows, spec.overhead) if spec.overhead else rows)
    except InvalidQuantity:
        return {}


class GangOwners:
    """The owners of gangs, and the pods of each owner that wait for a node."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self.waiting: dict[Owner, list[Pod]] = {}
        """By owner: the pods without a node."""
        self._pods = pods
        for pod in pods:
            if not pod.spec.node_name and not pod.finished:
                with row_of(pod.metadata.name):
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
        with row_of(pod.metadata.name):
            owner = owner_of(pod)
            gang = gang_named_by(pod) or single_pod_gang(pod)
            owners[gang.dialect, str(gang)] = owner
            # The gang of a budget has the name of the pods' controller.
            owners.setdefault((PDB.name, f"{owner.namespace}/{owner.name}"), owner)
    return owners
