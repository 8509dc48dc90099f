"""Marks pods that still ran when the cluster was stopped: the machine ended them, not a failure.

If the API server is already gone, `pod_status` writes the same mark at the next `up`. The
controller of a marked pod replaces it whatever its restart policy is, and does not count a failure:
the next `up` starts its job again. A pod without a controller whose containers may restart is not
marked: the next `up` restarts them in the same pod.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects.conditions import disruption_condition
from kubekit.objects.kinds import PODS
from kubekit.request_errors import Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Raw
    from localkube.node.pod import Pod as RunPod

log = logging.getLogger(__name__)

STOPPED_MESSAGE = "The local cluster was stopped while the pod ran."


async def mark_stopped_pods(client: Client, nodes: Iterable[str], now: datetime) -> None:
    """Mark every pod of these nodes that had not ended and does not restart in place."""
    names = frozenset(nodes)
    status = disruption_status("Terminated", STOPPED_MESSAGE, now)
    for pod in (await client.list(PODS)).items:
        if was_stopped(pod, names):
            try:
                await client.patch_status(PODS, pod.metadata, status)
            except (NotFound, Conflict):
                continue  # deleted or replaced in between
            except MusterError as error:  # the next `up` marks it
                log.warning("%s is not marked as stopped: %s", pod.metadata.key, error)


def was_stopped(pod: Pod, nodes: frozenset[str]) -> bool:
    """Whether the pod ran on one of these nodes and does not restart in place."""
    over = pod.finished or pod.metadata.deletion_timestamp is not None
    return pod.spec.node_name in nodes and not over and not restarts_in_place(pod)


def restarts_in_place(pod: Pod | RunPod) -> bool:
    """Whether the same pod continues when the cluster is up again."""
    return pod.metadata.controller is None and pod.spec.restart_policy != "Never"


def disruption_status(reason: str, message: str, now: datetime) -> Raw:
    """The status of a pod that the node ended: not a failure of the pod."""
    condition = disruption_condition("TerminationByKubelet", message, now)
    return {"phase": "Failed", "reason": reason, "message": message, "conditions": [condition]}
