"""Who may stay on a tainted node, and for how long: pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from muster.local.workloads import conditions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.meta import Raw
    from muster.local.workloads.shapes import Pod, TimedTaint, TimedToleration


def leaves_at(pod: Pod, taints: Sequence[TimedTaint], now: datetime) -> datetime | None:
    """When the pod must go; None if it may stay for good.

    A taint that is not tolerated sends it away at once; among tolerations of limited time the
    shortest counts, from when the taint was put there.
    """
    times = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        since = datetime.fromisoformat(taint.time_added) if taint.time_added else now
        matching = [one for one in pod.spec.tolerations if tolerates(one, taint)]
        if not matching:
            return now
        limited = [one.toleration_seconds for one in matching if one.toleration_seconds is not None]
        if limited:
            times.append(since + timedelta(seconds=max(0, min(limited))))
    return min(times, default=None)


def tolerates(toleration: TimedToleration, taint: TimedTaint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    same = toleration.operator == "Exists" or toleration.value == taint.value
    return toleration.key == taint.key and same


def notice(reason: str, message: str, now: datetime) -> Raw:
    """The condition by which a pod says that it did not end by itself."""
    return conditions.fresh("DisruptionTarget", "True", reason, message, now)
