"""The line: who waits, why and for what; who waits for a quota; who holds room; who was placed.

The scheduler publishes its line in order. Pods without a node that are in no row of it (of another
scheduler, held back by a gate, or just created) follow, with the words of `arena explain`. To a
reader who may not read the line the pods tell their places.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubekit.objects.meta import read_timestamp
from kubekit.objects.quantity import format_amount
from muster.contract import waiting_line_format
from muster.contract.job_explanation import explain_job
from muster.jobs.quota_line import standing
from muster.jobs.view.units import count, named_or_counted, natural_order
from muster.web.views import NOT_SHOWN, guarded, row_of
from muster.web.views.node_room import HoldRow, hold_rows
from muster.web.views.owner_colours import (
    NO_JOB,
    GangOwners,
    Looks,
    Owner,
    initials,
    owner_of,
    requests_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.objects.core import ConfigMap, Pod
    from kubekit.objects.meta import Raw
    from muster.contract.waiting_line_format import HeldRoom, WaitingGang
    from muster.jobs.quota_line import Standing

RECENT = timedelta(minutes=10)
MAX_ROWS, MAX_PLACED, MAX_HOLDERS = 200, 20, 3
WAITS_FOR = {
    "NotEnoughMembers": "its other pods to be created",
    "NoSuchGroup": "its group to be created",
    "NotEnoughRoom": "room on nodes",
    "FitsNowhere": "other nodes: none of these suits it",
    "DoesNotFitTogether": "room for all its roles at once",
    "Unsupported": "a change of its manifest",
    "BindFailed": "the API server to accept its pods; it is tried again",
    "Preempting": "pods of lower priority to leave",
    "Provisioning": "its volumes to be created",
    "NoVolume": "a volume",
    "Leaving": "its former pods to leave",
    "Internal": "the scheduler's next try",
}
"""By the code of the reason."""


class PublishedLine(NamedTuple):
    """The scheduler's ConfigMap."""

    gangs: Sequence[WaitingGang] = ()
    holds: Sequence[HeldRoom] = ()
    is_read: bool = True
    """Whether there is one that the reader may read."""


def published(config_maps: Iterable[ConfigMap]) -> PublishedLine:
    """The line; empty if no scheduler of ours has written one."""
    data = next((config_map.data for config_map in config_maps), None)
    if data is None:
        return PublishedLine(is_read=False)
    return PublishedLine(waiting_line_format.read(data), waiting_line_format.read_holds(data))


class Holder(msgspec.Struct, frozen=True):
    """Somebody who has what others are short of."""

    owner: Owner
    amount: str


class LineRow(msgspec.Struct, frozen=True, kw_only=True):
    """One gang, or one job whose pods are in no gang, that waits."""

    place: int = 0
    """0 if it is not in the scheduler's line."""
    owner: Owner
    gang: str = ""
    """Its name, if it is not the owner's: of one pod, or of a group."""
    look: str
    initials: str
    reason: str
    waits_for: str = ""
    short: str = ""
    """The amounts that are missing."""
    members: str = ""
    held: int = 0
    priority: int = 0
    since: datetime | None = None
    waited: float = 0.0
    """Seconds since then."""
    resource: str = ""
    """The resource that the holders have."""
    holders: tuple[Holder, ...] = ()


class PlacedRow(msgspec.Struct, frozen=True):
    """The pods of one owner that got nodes in the last minutes."""

    owner: Owner
    look: str
    initials: str
    pods: int
    nodes: str
    at: datetime
    ago: float
    waited: float


class QuotaRow(msgspec.Struct, frozen=True):
    """A job that stands in the line of a ResourceQuota: it has no pods, or not all."""

    place: int
    owner: Owner
    look: str
    initials: str
    quota: str
    needs: str
    priority: int
    since: datetime | None
    waited: float


class LineView(msgspec.Struct, frozen=True):
    rows: tuple[LineRow, ...]
    total: int
    in_line: int
    quotas: tuple[QuotaRow, ...]
    in_quotas: int
    holds: tuple[HoldRow, ...]
    placed: tuple[PlacedRow, ...]
    minutes: int


def line_view(
    pods: Sequence[Pod],
    line: PublishedLine,
    looks: Looks,
    now: datetime,
    jobs: Iterable[tuple[str, Raw]] = (),
) -> LineView:
    """`jobs`: the jobs as the server has them, each with its kind."""
    owners = GangOwners(pods)
    rows = line_rows(line, owners, looks, now)
    quotas = quota_rows(jobs, looks, now)
    return LineView(
        rows=_with_holders(rows[:MAX_ROWS], line.gangs, pods),
        total=len(rows),
        in_line=sum(row.place > 0 for row in rows),
        quotas=quotas[:MAX_ROWS],
        in_quotas=len(quotas),
        holds=hold_rows(line.holds, owners, looks),
        placed=_placed(pods, looks, now),
        minutes=int(RECENT.total_seconds()) // 60,
    )


def line_rows(
    line: PublishedLine, owners: GangOwners, looks: Looks, now: datetime
) -> tuple[LineRow, ...]:
    """The published line, and after it the pods without a node that it does not have."""
    rows, known = [], set()
    for row in sorted(line.gangs, key=lambda row: row.place):
        owner = owners.of(row.dialect, row.gang)
        known.add(owner)
        make = partial(_published, row, owner, looks, now)
        rows.append(guarded(make, partial(_not_shown, owner, row.place), row.gang))
    for owner, pods in owners.waiting.items():
        if owner not in known:
            make = partial(_unpublished, owner, pods, line, looks, now)
            rows.append(guarded(make, partial(_not_shown, owner), owner))
    return tuple(sorted(rows, key=lambda row: row.place or math.inf))


def quota_rows(
    jobs: Iterable[tuple[str, Raw]], looks: Looks, now: datetime
) -> tuple[QuotaRow, ...]:
    """The jobs that wait for a quota, by namespace and quota, each line in order."""
    lines: dict[tuple[str, str], list[Standing]] = {}
    for kind, job in jobs:
        with row_of(kind):
            if (row := standing(kind, job)) is not None:
                lines.setdefault((row.key.namespace, row.wait.name), []).append(row)
    return tuple(
        _in_quota(place, row, looks, now)
        for _, line in sorted(lines.items())
        for place, row in enumerate(sorted(line), start=1)
    )


def _in_quota(place: int, row: Standing, looks: Looks, now: datetime) -> QuotaRow:
    owner = Owner(row.key.namespace, row.kind, row.key.name)
    since = read_timestamp(row.wait.since)
    return QuotaRow(
        place=place,
        owner=owner,
        look=looks.of(owner),
        initials=initials(owner.name),
        quota=row.wait.name,
        needs=", ".join(f"{amount} {name}" for name, amount in row.wait.needs.items()),
        priority=row.wait.priority,
        since=since,
        waited=_seconds(since, now),
    )


def _not_shown(owner: Owner, place: int = 0) -> LineRow:
    return LineRow(place=place, owner=owner, look=NO_JOB, initials="?", reason=NOT_SHOWN)


def _published(row: WaitingGang, owner: Owner, looks: Looks, now: datetime) -> LineRow:
    since = read_timestamp(row.since)
    gang = row.gang.rpartition("/")[2]
    members = f"{count(row.pending, 'pod')} without a node"
    if row.bound:
        members += f", {row.bound} with"
    if row.min_member > 1:
        members += f"; starts with {row.min_member}"
    return LineRow(
        place=row.place,
        owner=owner,
        gang=gang if gang != owner.name else "",
        look=looks.of(owner),
        initials=initials(owner.name),
        reason=row.reason,
        waits_for=WAITS_FOR.get(row.code, ""),
        short=", ".join(f"{amount} {name}" for name, amount in row.short.items()),
        members=members,
        held=row.held,
        priority=row.priority,
        since=since,
        waited=_seconds(since, now),
    )


def _unpublished(
    owner: Owner, pods: Sequence[Pod], line: PublishedLine, looks: Looks, now: datetime
) -> LineRow:
    created = [pod.metadata.creation_timestamp for pod in pods]
    since = min(filter(None, created), default=None)
    explanation = explain_job(owner.name, pods, () if line.is_read else None, now)
    return LineRow(
        place=explanation.place,
        owner=owner,
        look=looks.of(owner),
        initials=initials(owner.name),
        reason=explanation.reason or explanation.text,
        members=f"{count(len(pods), 'pod')} without a node",
        priority=max(pod.spec.priority for pod in pods),
        since=since,
        waited=_seconds(since, now),
    )


def _seconds(since: datetime | None, now: datetime) -> float:
    return (now - since).total_seconds() if since else 0.0


def _with_holders(
    rows: Iterable[LineRow], line: Iterable[WaitingGang], pods: Sequence[Pod]
) -> tuple[LineRow, ...]:
    """The rows, each with those who have most of what it is short of."""
    short = {row.place: tuple(row.short) for row in line if row.short}
    names = {name for resources in short.values() for name in resources}
    holders = _holders(names, pods) if names else {}
    complete = []
    for row in rows:
        # A reader is helped by the resource that somebody has, not by one that no node has.
        name = next((name for name in short.get(row.place, ()) if holders[name]), "")
        has = holders.get(name, ())
        complete.append(msgspec.structs.replace(row, resource=name, holders=has))
    return tuple(complete)


def _holders(names: Iterable[str], pods: Iterable[Pod]) -> dict[str, tuple[Holder, ...]]:
    sums = {name: Counter[Owner]() for name in names}
    for pod in pods:
        if not pod.spec.node_name or pod.finished:
            continue
        with row_of(pod.metadata.name):
            requests = requests_of(pod)
            for name, by_owner in sums.items():
                if amount := requests.get(name, 0):
                    by_owner[owner_of(pod)] += amount
    return {
        name: tuple(
            Holder(owner, format_amount(name, amount))
            for owner, amount in sorted(by_owner.items(), key=lambda row: (-row[1], row[0]))
        )[:MAX_HOLDERS]
        for name, by_owner in sums.items()
    }


def _placed(pods: Iterable[Pod], looks: Looks, now: datetime) -> tuple[PlacedRow, ...]:
    """The newest first."""
    recent: dict[Owner, list[tuple[datetime, Pod]]] = {}
    for pod in pods:
        with row_of(pod.metadata.name):
            bound = pod.bound_at
            if bound is not None and now - bound <= RECENT:
                recent.setdefault(owner_of(pod), []).append((bound, pod))
    rows: list[PlacedRow] = []
    for owner, members in recent.items():
        with row_of(owner):
            rows.append(_placed_row(owner, members, looks, now))
    rows.sort(key=lambda row: (row.at, row.owner), reverse=True)
    return tuple(rows[:MAX_PLACED])


def _placed_row(
    owner: Owner, members: Sequence[tuple[datetime, Pod]], looks: Looks, now: datetime
) -> PlacedRow:
    at = max(bound for bound, _ in members)
    waits = (
        (bound - pod.metadata.creation_timestamp).total_seconds()
        for bound, pod in members
        if pod.metadata.creation_timestamp is not None
    )
    nodes = sorted({pod.spec.node_name for _, pod in members}, key=natural_order)
    return PlacedRow(
        owner=owner,
        look=looks.of(owner),
        initials=initials(owner.name),
        pods=len(members),
        nodes=named_or_counted(nodes, "node"),
        at=at,
        ago=_seconds(at, now),
        waited=max(waits, default=0.0),
    )
