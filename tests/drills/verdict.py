"""What a drill must not have done, judged from the lives of all pods."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.drills.pod_history import FOREVER, ROLE, PodLife, by_gang

Window = tuple[float, float]


class HalfGang(NamedTuple):
    """A gang that had some of its members bound, but fewer than it needs, and for how long."""

    gang: str
    start: float
    end: float

    def seconds_outside(self, troubles: Sequence[Window]) -> float:
        """Seconds of it in which nothing was out of order."""
        overlap = sum(
            max(0.0, min(self.end, end) - max(self.start, start)) for start, end in troubles
        )
        return self.end - self.start - overlap


def bound_twice(lives: Iterable[PodLife]) -> list[str]:
    """Pods whose bind the server accepted more than once."""
    return [f"{life.name}: {life.binds}" for life in lives if len(life.binds) > 1]


def over_committed(
    lives: Iterable[PodLife], gpus: Mapping[str, int], moment: float = 0.0
) -> list[str]:
    """Nodes that had more GPUs in use than they have, for longer than a moment, and their pods."""
    by_node: dict[str, list[PodLife]] = defaultdict(list)
    for life in lives:
        if life.node and life.gpus:
            by_node[life.node].append(life)
    found = []
    for node, pods in by_node.items():
        moments = sorted({at for pod in pods for at in (pod.bound, pod.freed)})
        begun = FOREVER
        for at in moments:
            there = [pod for pod in pods if pod.bound <= at < pod.freed]
            if sum(pod.gpus for pod in there) > gpus[node]:
                begun = min(begun, at)
                names = [pod.name for pod in there]
            elif at - begun > moment:
                found.append(f"{node} for {at - begun:.3f} s: {names}")
            if sum(pod.gpus for pod in there) <= gpus[node]:
                begun = FOREVER
    return found


def doubled(lives: Iterable[PodLife]) -> list[str]:
    """Replicas that two living pods stood for at the same time."""
    replicas: dict[tuple[str, str, str], list[PodLife]] = defaultdict(list)
    for life in lives:
        replicas[life.replica].append(life)
    found = []
    for replica, pods in replicas.items():
        pods.sort(key=lambda pod: pod.created)
        # Creation times are whole seconds.
        found += [f"{replica}" for one, two in pairwise(pods) if two.created + 1 < one.freed]
    return found


def recreated(lives: Iterable[PodLife]) -> dict[str, Counter[str]]:
    """Jobs that got more than one pod for a replica, and who deleted the earlier ones."""
    replicas: dict[tuple[str, str, str], list[PodLife]] = defaultdict(list)
    for life in sorted(lives, key=lambda life: life.created):
        replicas[life.replica].append(life)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (gang, _, _), pods in replicas.items():
        for pod in pods[:-1]:
            found[gang][pod.deleted_by or "not deleted"] += 1
    return dict(found)


def half_gangs(
    lives: Mapping[str, PodLife], sizes: Mapping[str, int], now: float
) -> list[HalfGang]:
    """Every time in which a gang was between nothing and whole.

    A gang is judged until the first of its pods ends: from then on the job comes to its end.
    Launchers are no members: they start later.
    """
    found = []
    for gang, pods in by_gang(dict(lives)).items():
        members = [pod for pod in pods if pod.labels.get(ROLE) != "launcher"]
        last = min((pod.ended for pod in pods), default=FOREVER)
        moments = sorted(
            {at for pod in members if pod.bound < FOREVER for at in (pod.bound, pod.freed)}
        )
        for start, end in pairwise([*(at for at in moments if at < last), min(last, now)]):
            count = sum(pod.bound <= start < pod.freed for pod in members)
            if 0 < count < sizes.get(gang, 0) and end > start:
                found.append(HalfGang(gang, start, end))
    return _merged(found)


def _merged(parts: list[HalfGang]) -> list[HalfGang]:
    """Parts that follow each other without a pause, joined."""
    joined: list[HalfGang] = []
    for part in parts:
        if joined and joined[-1].gang == part.gang and joined[-1].end == part.start:
            joined[-1] = joined[-1]._replace(end=part.end)
        else:
            joined.append(part)
    return joined
