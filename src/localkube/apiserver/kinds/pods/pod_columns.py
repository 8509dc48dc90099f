"""Pod: the columns of `kubectl get pods`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubekit.objects import status_column
from kubekit.objects.core import Pod
from kubekit.objects.kinds import convert
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _ready(pod: Raw, now: datetime) -> str:
    total = len(cells.rows(pod, "spec.containers")) + len(_sidecars(pod))
    return f"{sum(bool(s.get('ready')) for s in _running(pod))}/{total}"


def row_conditions(pod: Raw) -> list[Raw]:
    """The condition of a row whose pod has ended."""
    phase = cells.text(pod, "status.phase")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def _gates(pod: Raw, now: datetime) -> str:
    gates = cells.rows(pod, "spec.readinessGates")
    ready = sum(cells.condition_is_true(pod, cells.text(gate, "conditionType")) for gate in gates)
    return f"{ready}/{len(gates)}" if gates else cells.NONE


def _status(pod: Raw, now: datetime) -> str:
    return status_column.status_column(_read(pod))


def _read(pod: Raw) -> Pod:
    """The pod as a struct; an empty pod if a field has a wrong type, so that its row prints."""
    try:
        return convert(pod, Pod)
    except msgspec.ValidationError:
        return Pod()


def _sidecars(pod: Raw) -> set[str]:
    """The names of the init containers that keep running next to the main containers."""
    init = cells.rows(pod, "spec.initContainers")
    return {cells.text(c, "name") for c in init if cells.text(c, "restartPolicy") == "Always"}


def _running(pod: Raw) -> list[Raw]:
    """Statuses of the containers that run together: sidecars and main containers."""
    init, sidecars = cells.rows(pod, "status.initContainerStatuses"), _sidecars(pod)
    return [s for s in init if cells.text(s, "name") in sidecars] + cells.rows(
        pod, "status.containerStatuses"
    )


def _restarts(pod: Raw, now: datetime) -> str:
    """Of the running containers or, until the pod is initialized, of its init containers."""
    if cells.condition_is_true(pod, "Initialized") or not status_column.init_word(_read(pod)):
        statuses = _running(pod)
    else:
        statuses = cells.rows(pod, "status.initContainerStatuses")
    count = sum(cells.number(s, "restartCount") for s in statuses)
    times = [cells.text(s, "lastState.terminated.finishedAt") for s in statuses]
    last = max(times, default="")
    return f"{count} ({cells.age(last, now)} ago)" if count and last else str(count)


COLUMNS = (
    cells.NAME
    | {"Ready": _ready, "Status": _status, "Restarts": _restarts}
    | cells.AGE
    | {
        "IP+": cells.text_at("status.podIP", cells.NONE),
        "Node+": cells.text_at("spec.nodeName", cells.NONE),
        "Nominated Node+": cells.text_at("status.nominatedNodeName", cells.NONE),
        "Readiness Gates+": _gates,
    }
)
