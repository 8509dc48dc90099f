"""The line of the jobs of a namespace that wait for its ResourceQuotas, in order.

The line is in the jobs' own statuses (`status.waiting.quota`): it survives a restart of the
operator, and everybody who reads the jobs of a namespace sees the same one. A job that ran before
and replaces pods goes first; then priority counts, then age. A job waits for those ahead of it that
need the same resources, except for jobs that need more than the quota allows in all: their wait may
never end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubekit.objects.kinds import convert
from kubekit.objects.meta import Key, key_of, mapping
from kubekit.objects.quantity import InvalidQuantity, parse_amount
from muster.jobs.job import MANAGED_BY_MUSTER
from muster.jobs.job_status import FINAL, QUOTA_EXCEEDED, QuotaWait

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kubekit.objects.core import Quantity
    from kubekit.objects.meta import Raw

Rank = tuple[bool, int, str, str]
"""What jobs are sorted by."""


class Standing(NamedTuple):
    """A job in the line."""

    rank: Rank
    kind: str
    key: Key
    uid: str
    wait: QuotaWait


def rank(wait: QuotaWait, created: str, name: str) -> Rank:
    """The place of a job among others: the smallest is the first."""
    return (not wait.has_place, -wait.priority, created, name)


def standing(kind: str, job: Raw) -> Standing | None:
    """The job's place among others; None if it stands in no line."""
    meta, status = job["metadata"], mapping(job.get("status"))
    waiting = mapping(status.get("waiting"))
    if waiting.get("reason") != QUOTA_EXCEEDED or meta.get("deletionTimestamp"):
        return None
    wait = _read(waiting.get("quota"))
    if wait is None or _has_ended(status) or _is_of_another(mapping(job.get("spec"))):
        return None
    own = rank(wait, str(meta.get("creationTimestamp") or ""), str(meta.get("name")))
    return Standing(own, kind, key_of(job), str(meta.get("uid")), wait)


def _read(raw: object) -> QuotaWait | None:
    try:
        return convert(raw, QuotaWait)
    except msgspec.ValidationError:
        return None


def _is_of_another(spec: Raw) -> bool:
    """Whether another operator works on the job: MultiKueue copies statuses of another cluster."""
    policies = (spec, mapping(spec.get("runPolicy")))
    return any((policy.get("managedBy") or "") not in MANAGED_BY_MUSTER for policy in policies)


def _has_ended(status: Raw) -> bool:
    rows: Any = status.get("conditions")
    return isinstance(rows, list) and any(
        mapping(row).get("type") in FINAL and row.get("status") == "True" for row in rows
    )


def blocks(wait: QuotaWait, resources: Collection[str]) -> bool:
    """Whether a job behind this one that needs these resources must wait for it."""
    return not wait.needs.keys().isdisjoint(resources) and not is_hopeless(wait)


def unblocked(line: Iterable[Standing], scoped: Collection[str]) -> list[Standing]:
    """The jobs of a sorted line whose turn it is: they wait for nobody in it.

    Whoever waits for a `scoped` quota is waited for only by those who wait for the same one.
    """
    found: list[Standing] = []
    awaited: dict[str, set[str]] = {"": set()}
    for row in line:
        own = awaited.setdefault(row.wait.name, set())
        if own.isdisjoint(row.wait.needs) and awaited[""].isdisjoint(row.wait.needs):
            found.append(row)
        if not is_hopeless(row.wait):
            (own if row.wait.name in scoped else awaited[""]).update(row.wait.needs)
    return found


def is_hopeless(wait: QuotaWait) -> bool:
    """Whether the job needs more than the quota allows in all."""
    return not _fits(wait.needs, wait.limits)


def has_room(wait: QuotaWait, hard: Mapping[str, Quantity], used: Mapping[str, Quantity]) -> bool:
    """Whether a quota with these limits and this usage has what the job needs, as far as known."""
    return _fits(wait.needs, hard, used)


def _fits(
    needs: Mapping[str, Quantity],
    limits: Mapping[str, Quantity],
    used: Mapping[str, Quantity] | None = None,
) -> bool:
    used = used or {}
    try:
        return all(
            amount(name, need) + amount(name, used.get(name, 0)) <= amount(name, limits[name])
            for name, need in needs.items()
            if name in limits
        )
    except InvalidQuantity:
        return True


def amount(name: str, quantity: Quantity) -> int:
    """A quantity of a resource in a quota's words, in the unit of the resource."""
    return parse_amount(resource_of(name), quantity)


def resource_of(name: str) -> str:
    """`nvidia.com/gpu` of `requests.nvidia.com/gpu` and of `limits.nvidia.com/gpu`."""
    return name.removeprefix("requests.").removeprefix("limits.")


class Place(NamedTuple):
    """The place of a job in the line of its quota, for people."""

    place: int
    of: int
    wait: QuotaWait


def place_of(line: Sequence[Standing], uid: str) -> Place | None:
    """The place of this job among those that wait for the same quota; None if it is not there."""
    own = next((row for row in line if row.uid == uid), None)
    if own is None:
        return None
    same = [row.uid for row in line if row.wait.name == own.wait.name and row.key[0] == own.key[0]]
    return Place(same.index(uid) + 1, len(same), own.wait)
