"""Limits of pods: those that a local node enforces, and the messages of pods evicted over one.

A local node publishes in annotations of its Node which limits of control groups it enforces.
The node writes `enforced`, or `not enforced: ` and the reason. A node without these annotations is
not a local one, and its kubelet enforces them.
"""

from __future__ import annotations

import re
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
        f"{' and '.join(filter(None, [', '.join(most), last]))} limits are {_NOT}{reason}"
        for reason, (*most, last) in by_reason.items()
    )


# -- evictions ------------------------------------------------------------------------------------

# Worded as the kubelet does. It gives every eviction the reason `Evicted`, whether the node was
# short of a resource or the pod exceeded its own limit. Only the message tells: a pod over its
# own limit would exceed it again, so it counts as a failure of its job.

EVICTED = "Evicted"
"""The reason in the status of an evicted pod."""
_OVER_OWN_LIMIT = re.compile(
    "Pod ephemeral local storage usage exceeds"
    "|Container [^ ]+ exceeded its local ephemeral storage limit"
    "|Usage of EmptyDir volume .* exceeds the limit"
)


def volume_over_limit(name: str, limit: str) -> str:
    """An emptyDir is larger than its sizeLimit."""
    return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}".'


def pod_over_limit(limit: str) -> str:
    """The pod uses more than the limits of its containers together."""
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}."


def container_over_limit(name: str, limit: str) -> str:
    """The files and logs of a container exceed its limit."""
    return f'Container {name} exceeded its local ephemeral storage limit "{limit}".'


def pod_over_default_limit(usage: str, free: str) -> str:
    """A pod without a limit uses more than it leaves free; only Muster's own node does this."""
    return (
        f"Pod ephemeral local storage usage exceeds the default limit: it uses {usage} and leaves "
        f"{free} of the disk free. Set resources.limits.ephemeral-storage to allow it more, or "
        "write to a directory of your own."
    )


def is_over_own_limit(reason: str, message: str) -> bool:
    """Whether a pod with this status was evicted because of its own usage of disk."""
    return reason == EVICTED and _OVER_OWN_LIMIT.match(message) is not None
