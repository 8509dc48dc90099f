"""Switching the nodes off: telling the API that it was the machine, not the pods, that ended.

Called by `local/up.py` when the cluster is stopped, after the pods were ended; where the API could
not be told any more, `status` says the same when it is back. A pod so marked is
replaced by whoever made it, whatever its restart policy says, and does not count as a failure: the
next `up` starts its job again. A pod that nobody would replace is left as it is if its containers
may be started again: the next `up` finds them ended, and starts them in the same pod.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.kinds import PODS
from muster.api.meta import timestamp
from muster.errors import NotFound
from muster.kube.request import PatchType

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.kube.client import Client
    from muster.local.node.pod import Pod as RunPod

STOPPED_MESSAGE = "The local cluster was stopped while the pod ran."


async def mark_stopped_pods(client: Client, nodes: Iterable[str], now: datetime) -> None:
    """Mark every pod of those nodes that had not ended."""
    ours = frozenset(nodes)
    for pod in (await client.list(PODS)).items:
        if was_stopped(pod, ours):
            with contextlib.suppress(NotFound):
                await client.patch(
                    PODS,
                    pod.metadata.key,
                    {"status": disruption_status("Terminated", STOPPED_MESSAGE, now)},
                    patch_type=PatchType.STRATEGIC,
                    subresource="status",
                )


def was_stopped(pod: Pod, nodes: frozenset[str]) -> bool:
    """Whether the pod was on one of these nodes, is neither finished nor being deleted, and will
    not simply be started again."""
    going = pod.finished or pod.metadata.deletion_timestamp is not None
    return pod.spec.node_name in nodes and not going and not restarts_in_place(pod)


def restarts_in_place(pod: Pod | RunPod) -> bool:
    """Whether it is the pod itself that goes on when the cluster is up again."""
    return pod.metadata.controller is None and pod.spec.restart_policy != "Never"


def disruption_status(reason: str, message: str, now: datetime) -> Raw:
    """What a node writes into the status of a pod that it ends: it was not the pod's failure."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": message,
        "lastTransitionTime": timestamp(now),
    }
    return {"phase": "Failed", "reason": reason, "message": message, "conditions": [condition]}
