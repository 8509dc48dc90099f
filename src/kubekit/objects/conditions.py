"""`status.conditions` as they are written: pure.

A condition keeps its `lastTransitionTime` while its status stays the same. To read conditions of
decoded objects, see `find_condition` in `meta.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.meta import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.meta import Raw


def new_condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Raw:
    """A condition that changed just now."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(now),
    }


def disruption_condition(reason: str, message: str, now: datetime) -> Raw:
    """The condition of a pod that the cluster ended: it did not fail by itself."""
    return new_condition("DisruptionTarget", "True", reason, message, now)


PREEMPTION = "PreemptionByScheduler"
"""The reason of DisruptionTarget on a pod that is deleted to make room for another."""
_PREEMPTED = "preempted by "
FILES_DISCARDED = "muster.dev/FilesDiscarded"
"""A condition of a pod on the local cluster that wrote files to private directories: the message
names the first."""


def preemption_message(preemptor: str) -> str:
    """The message of such a condition in our words."""
    return f"{_PREEMPTED}{preemptor}, which has a higher priority"


def preemption_in_words(message: str) -> str:
    """Who preempted a pod: the message if it is ours; other schedulers name nobody."""
    return message if is_preemption(message) else f"{_PREEMPTED}a pod of higher priority"


def is_preemption(words: str) -> bool:
    """Whether words about a pod that was taken away tell of a preemption."""
    return words.startswith(_PREEMPTED)


def find(conditions: Sequence[Raw], type_: str) -> Raw | None:
    return next((condition for condition in conditions if condition["type"] == type_), None)


def is_true(conditions: Sequence[Raw], type_: str) -> bool:
    return (find(conditions, type_) or {}).get("status") == "True"


def without(conditions: Sequence[Raw], type_: str) -> list[Raw]:
    return [condition for condition in conditions if condition["type"] != type_]


def with_condition(conditions: Sequence[Raw], new: Raw) -> list[Raw]:
    """The conditions with this one at the end; unchanged if status and reason are the same."""
    old = find(conditions, new["type"])
    if old is not None and (old["status"], old.get("reason")) == (new["status"], new.get("reason")):
        return list(conditions)
    if old is not None and old["status"] == new["status"]:
        new = {**new, "lastTransitionTime": old.get("lastTransitionTime")}
    return [*without(conditions, new["type"]), new]
