"""An independent judge of gangs and nodes: it reads the API server's audit log and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple


class AuditEntry(NamedTuple):
    """A pod got a node, or (node is empty) went."""

    at: float
    pod: str
    node: str


def read_entries(log: Path) -> list[AuditEntry]:
    """Every bind and every deletion that the server accepted, in order."""
    written = log.read_text().rpartition("\n")[0]  # what comes after may be half a line
    return sorted(fact for line in written.splitlines() for fact in _entries(json.loads(line)))


def _entries(event: dict[str, Any]) -> Iterator[AuditEntry]:
    about = event.get("objectRef", {})
    code = event.get("responseStatus", {}).get("code", 0)
    if event.get("stage") != "ResponseComplete" or about.get("resource") != "pods":
        return
    at = datetime.fromisoformat(event["stageTimestamp"]).timestamp()
    if event["verb"] == "create" and about.get("subresource") == "binding" and code == 201:
        yield AuditEntry(at, about["name"], event["requestObject"]["target"]["name"])
    elif event["verb"] == "delete" and not about.get("subresource") and code == 200:
        yield AuditEntry(at, about["name"], "")


def gang_of(pod: str) -> str:
    return pod.rpartition("-")[0]


def half_gangs(log: Path, least: int, since: float) -> set[str]:
    """Gangs that were seen between nothing and `least` at any moment after `since`."""
    bound: dict[str, set[str]] = {}
    guilty = set()
    judged = False
    for fact in [*read_entries(log), AuditEntry(since + 1e9, "", "")]:
        if fact.at > since and not judged:
            judged = True
            guilty |= {gang for gang, pods in bound.items() if 0 < len(pods) < least}
        if not fact.pod:
            continue
        members = bound.setdefault(gang_of(fact.pod), set())
        (members.add if fact.node else members.discard)(fact.pod)
    guilty |= {gang for gang, pods in bound.items() if 0 < len(pods) < least}
    return guilty


def most_bound_per_node(log: Path) -> Counter[str]:
    """The most pods that each node ever had at once."""
    where: dict[str, str] = {}
    most: Counter[str] = Counter()
    for fact in read_entries(log):
        where.pop(fact.pod, None)
        if fact.node:
            where[fact.pod] = fact.node
            most[fact.node] = max(most[fact.node], Counter(where.values())[fact.node])
    return most
