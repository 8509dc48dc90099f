"""Rows of `status.conditions`, as workloads write them: pure.

A row keeps the time of its last transition while its status stays; deployments also say when a row
was last updated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.meta import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from muster.api.meta import Raw


def new_condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Raw:
    """A row that became so just now."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(now),
    }


def find(conditions: Sequence[Raw], type_: str) -> Raw | None:
    return next((one for one in conditions if one["type"] == type_), None)


def is_true(conditions: Sequence[Raw], type_: str) -> bool:
    found = find(conditions, type_)
    return found is not None and found["status"] == "True"


def without(conditions: Sequence[Raw], type_: str) -> list[Raw]:
    return [one for one in conditions if one["type"] != type_]


def with_condition(conditions: Sequence[Raw], new: Raw) -> list[Raw]:
    """The conditions with this row at the end; one that says the same already stays as it is."""
    old = find(conditions, new["type"])
    if old is not None and (old["status"], old.get("reason")) == (new["status"], new.get("reason")):
        return list(conditions)
    if old is not None and old["status"] == new["status"]:
        new = {**new, "lastTransitionTime": old.get("lastTransitionTime")}
    return [*without(conditions, new["type"]), new]
