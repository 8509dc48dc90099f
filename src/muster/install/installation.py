"""Carrying out a plan: apply the objects, then wait until the Deployments are ready."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kubekit.client.request import Request as ApiRequest
from kubekit.errors import MusterError
from kubekit.objects.kinds import CRDS, DEPLOYMENTS, PODS
from kubekit.objects.meta import Key, Raw, key_of
from muster.client.manifests import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from muster.client.manifests.apply import SendResult
    from muster.install.plan import Plan

LOOK_EVERY = 0.5


def apply_plan(client: BlockingClient, plan: Plan) -> Iterator[SendResult | MusterError]:
    """Apply every object and yield its result or its error.

    The fields of Muster's own objects are taken over from whoever wrote them before.
    """
    for crd in plan.extended_crds:
        # With its resourceVersion: a change by its owner in between is a conflict, not lost.
        path, body = CRDS.path(name=crd["metadata"]["name"]), msgspec.json.encode(crd)
        response = client.send(ApiRequest("PUT", path, body=body))
        yield apply.SendResult("configured", msgspec.json.decode(response.body, type=dict))
    objects = [apply.ReadObject(item, "") for item in plan.objects]
    send = partial(apply.apply_object, force=True)
    yield from apply.send_all(client, objects, "", send, dry_run=False)


class NotReady(MusterError):
    """A Deployment did not become ready in time."""


def wait_until_ready(
    client: BlockingClient,
    keys: Iterable[Key],
    *,
    deadline: float,
    show: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait for every Deployment; NotReady says which pod keeps it from being ready, and why."""
    for key in keys:
        while True:
            deployment = client.get(DEPLOYMENTS, key)
            ready, wanted = readiness(deployment)
            problem = "" if ready >= wanted else pod_problem(_pods(client, key))
            show(f"{key.name}: {ready} of {wanted} ready" + (f"; {problem}" if problem else ""))
            if ready >= wanted:
                break
            if time.monotonic() > deadline:
                raise NotReady(
                    f"{key.name} is not ready: {problem or 'it has no pods yet'}",
                    hint=f"kubectl -n {key.namespace} logs deployment/{key.name}",
                )
            sleep(LOOK_EVERY)


def readiness(deployment: Raw) -> tuple[int, int]:
    """How many replicas of the newest template are available, and how many are wanted.

    While a Deployment is scaled down, pods beyond the wanted number do not count.
    """
    status, wanted = deployment.get("status") or {}, deployment["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return 0, wanted
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    return min(updated, available, wanted), wanted


def _pods(client: BlockingClient, key: Key) -> list[Raw]:
    labels = f"app.kubernetes.io/name={key.name}"
    return list(client.list(PODS.read_as(dict), key.namespace, labels=labels).items)


def pod_problem(pods: Iterable[Raw]) -> str:
    """Why the first pod that is not ready is not, in one sentence; empty if nothing is known."""
    for pod in sorted(pods, key=lambda pod: str(key_of(pod))):
        status = pod.get("status") or {}
        name = pod["metadata"]["name"]
        for row in status.get("containerStatuses") or []:
            waiting = (row.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") not in (None, "ContainerCreating"):
                return f"{name}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
        for row in status.get("conditions") or []:
            if row["type"] == "PodScheduled" and row["status"] == "False":
                return f"{name}: {row.get('reason', '')}: {row.get('message', '')}".rstrip(": ")
    return ""
