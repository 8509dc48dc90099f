"""The limits that a local node enforces, published in annotations of its Node.

The node writes `enforced`, or `not enforced: ` and the reason. A node without these annotations is
not a local one, and its kubelet enforces them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ANNOTATIONS = {
    "cpu": "muster.dev/cpu-limits",
    "memory": "muster.dev/memory-limits",
    "pids": "muster.dev/pids-limits",
}
"""The annotation of each resource whose limits a node may not enforce, named by its control group
controller."""
ENFORCED = "enforced"
_NOT = "not enforced: "


def not_enforced(reason: str) -> str:
    """The annotation's value for limits that are not enforced."""
    return f"{_NOT}{reason}"


def enforcement(nodes: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The published value of each resource, from the annotations of all nodes; a node that does
    not enforce a limit outweighs the others."""
    values: dict[str, str] = {}
    for node in nodes:
        for resource, annotation in ANNOTATIONS.items():
            value = node.get(annotation, "")
            if value and values.get(resource, ENFORCED) == ENFORCED:
                values[resource] = value
    return values


def unenforced(published: Mapping[str, str], resources: Iterable[str]) -> dict[str, str]:
    """Those of the resources whose limits are not enforced, each with the reason."""
    return {
        resource: published[resource].removeprefix(_NOT)
        for resource in sorted(resources)
        if published.get(resource, "").startswith(_NOT)
    }


def in_words(reasons: Mapping[str, str]) -> str:
    """The result of `unenforced` as a sentence: `cpu and memory limits are not enforced: …`."""
    by_reason: dict[str, list[str]] = {}
    for resource, reason in reasons.items():
        by_reason.setdefault(reason, []).append(resource)
    return "; ".join(
        f"{' and '.join(resources)} limits are {_NOT}{reason}"
        for reason, resources in by_reason.items()
    )
