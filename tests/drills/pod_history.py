"""The life of every pod, read from the API server's audit log and from nothing else.

A bind counts from the moment its answer was complete, and a pod frees its node from the moment the
request that ended it arrived. So two pods overlap only if they surely did.

A server that is killed may have written to etcd what it did not log any more. Any later answer that
shows the pod tells its node too.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kubekit.objects.meta import Raw

ROLE = "training.kubeflow.org/replica-type"
INDEX = "training.kubeflow.org/replica-index"
JOB = "training.kubeflow.org/job-name"
FOREVER = float("inf")
BIND_CODES = (200, 201)


@dataclass
class PodLife:
    """One pod, by its UID. Times are Unix times."""

    uid: str
    namespace: str = ""
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    gpus: int = 0
    created: float = 0.0
    binds: list[tuple[float, str]] = field(default_factory=list)
    """Every bind that the server accepted, with its node."""
    node: str = ""
    bound: float = FOREVER
    ended: float = FOREVER
    """When its containers ended."""
    exit_phase: str = ""
    deleted: float = FOREVER
    """When it was removed from the server."""
    deleted_by: str = ""
    """The program that first asked for its deletion."""
    last_seen: float = 0.0
    """When the log last shows it."""

    @property
    def gang(self) -> str:
        return f"{self.namespace}/{self.labels.get(JOB, '')}"

    @property
    def replica(self) -> tuple[str, str, str]:
        return self.gang, self.labels.get(ROLE, ""), self.labels.get(INDEX, "")

    @property
    def freed(self) -> float:
        """When it stopped using its node."""
        return min(self.ended, self.deleted)


def read_history(log: Path) -> dict[str, PodLife]:
    """All pods that the log knows, by UID."""
    lives: dict[str, PodLife] = {}
    for event in sorted(read_events(log), key=lambda event: _time(event, "stageTimestamp")):
        if event.get("objectRef", {}).get("resource") == "pods":
            _take(lives, event)
    return lives


def read_events(log: Path) -> Iterator[Raw]:
    """The lines of the log; a line that the kill of the server cut short is left out."""
    for line in log.read_text().splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if event.get("stage") == "ResponseComplete":
            yield event


def refused_requests(log: Path, troubles: Sequence[tuple[float, float]]) -> set[str]:
    """Every request of a service account of Muster that the server forbade.

    A server that starts knows no roles for a moment: what it forbids in trouble does not count.
    """
    return {
        f"{event['user']['username']} {event['verb']} {event['requestURI'].partition('?')[0]}"
        for event in read_events(log)
        if event.get("responseStatus", {}).get("code") == 403
        and event["user"]["username"].startswith("system:serviceaccount:muster:")
        and not any(start < _time(event, "stageTimestamp") < end for start, end in troubles)
    }


def _take(lives: dict[str, PodLife], event: Raw) -> None:
    reference, code = event["objectRef"], event.get("responseStatus", {}).get("code", 0)
    if code not in BIND_CODES:
        return
    if reference.get("subresource") == "binding":
        request = event["requestObject"]
        life = lives.setdefault(request["metadata"]["uid"], PodLife(request["metadata"]["uid"]))
        at = _time(event, "stageTimestamp")
        life.binds.append((at, request["target"]["name"]))
        if not life.node:
            life.node, life.bound = request["target"]["name"], at
        return
    pod = event.get("responseObject") or {}
    if pod.get("kind", "Pod") == "Pod" and pod.get("metadata", {}).get("uid"):
        _take_pod(lives, event, pod)


def _take_pod(lives: dict[str, PodLife], event: Raw, pod: Raw) -> None:
    metadata = pod["metadata"]
    life = lives.setdefault(metadata["uid"], PodLife(metadata["uid"]))
    life.namespace, life.name = metadata["namespace"], metadata["name"]
    life.last_seen = _time(event, "stageTimestamp")
    life.labels = metadata.get("labels") or {}
    life.created = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
    life.gpus = sum(_gpus(container) for container in pod["spec"]["containers"])
    arrived, answered = _time(event, "requestReceivedTimestamp"), _time(event, "stageTimestamp")
    if pod["spec"].get("nodeName") and not life.node:  # the log lost the bind
        life.node, life.bound = pod["spec"]["nodeName"], answered
    phase = pod.get("status", {}).get("phase")
    if phase in ("Succeeded", "Failed") and life.ended == FOREVER:
        life.ended, life.exit_phase = arrived, phase
    if event["verb"] == "delete" and not life.deleted_by:
        life.deleted_by = event.get("userAgent", "").partition(" ")[0]
    if event["verb"] == "delete" and not metadata.get("deletionGracePeriodSeconds"):
        life.deleted = min(life.deleted, arrived)


def _gpus(container: Raw) -> int:
    return int((container.get("resources", {}).get("limits") or {}).get("nvidia.com/gpu", 0))


def _time(event: Raw, name: str) -> float:
    return datetime.fromisoformat(event[name]).timestamp()


def by_gang(lives: dict[str, PodLife]) -> dict[str, list[PodLife]]:
    gangs: dict[str, list[PodLife]] = defaultdict(list)
    for life in lives.values():
        if JOB in life.labels:
            gangs[life.gang].append(life)
    return gangs


def reconcile_with_server(
    lives: dict[str, PodLife], listed: list[Any], troubles: Sequence[tuple[float, float]]
) -> None:
    """Mark pods as deleted that the server no longer has, and whose deletion the log lost.

    Only a server that was killed loses lines: it was in the first trouble after the last line.
    """
    there = {pod["metadata"]["uid"] for pod in listed}
    for life in lives.values():
        if life.uid not in there and life.deleted == FOREVER:
            after = [start for start, end in troubles if end > life.last_seen]
            assert after, f"{life.name} is gone, and the log does not say when"
            life.deleted = max(life.last_seen, min(after))
