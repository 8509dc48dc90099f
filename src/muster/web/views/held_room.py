"""Room that the scheduler holds for members to come: as a table, and as cells of nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import InvalidQuantity
from kubekit.objects.meta import read_timestamp
from kubekit.objects.quantity import format_amount, parse_amount
from muster.jobs.view.units import local_time, named_or_counted, natural_order
from muster.web.views.node_room import Share, add_requests
from muster.web.views.pod_owners import Looks, Owner, initials

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.contract.waiting_line_format import HeldRoom
    from muster.web.views.gang_owners import GangOwners


class HoldRow(msgspec.Struct, frozen=True):
    """All room that is held for one gang."""

    owner: Owner
    look: str
    initials: str
    pods: int
    amounts: str
    nodes: str
    until: datetime | None


def shares_by_node(holds: Iterable[HeldRoom], owners: GangOwners) -> dict[str, list[Share]]:
    """By node, the room that is held there."""
    held: dict[str, list[Share]] = {}
    for row in holds:
        until = local_time(read_timestamp(row.until)).partition(" ")[2]
        share = Share(owners.of(row.dialect, row.gang), until=until)
        add_requests(share, _parsed(row), row.pods)
        held.setdefault(row.node, []).append(share)
    return held


def hold_rows(holds: Iterable[HeldRoom], owners: GangOwners, looks: Looks) -> tuple[HoldRow, ...]:
    """One row per gang; those that end first come first."""
    by_gang: dict[tuple[str, str], list[HeldRoom]] = {}
    for row in holds:
        by_gang.setdefault((row.dialect, row.gang), []).append(row)
    rows = [_hold_row(owners.of(*gang), held, looks) for gang, held in by_gang.items()]
    never = datetime.max.replace(tzinfo=UTC)
    return tuple(sorted(rows, key=lambda row: (row.until or never, row.owner)))


def _hold_row(owner: Owner, held: list[HeldRoom], looks: Looks) -> HoldRow:
    sums: dict[str, int] = {}
    for row in held:
        for name, amount in _parsed(row).items():
            sums[name] = sums.get(name, 0) + amount
    nodes = sorted({row.node for row in held}, key=natural_order)
    return HoldRow(
        owner=owner,
        look=looks.of(owner),
        initials=initials(owner.name),
        pods=sum(row.pods for row in held),
        amounts=amounts(sums),
        nodes=named_or_counted(nodes, "node"),
        until=max(filter(None, (read_timestamp(row.until) for row in held)), default=None),
    )


def amounts(resources: dict[str, int]) -> str:
    """`2 nvidia.com/gpu, 500m cpu`; devices first, since they are what people wait for."""
    names = sorted(resources, key=lambda name: ("/" not in name, name))
    return ", ".join(f"{format_amount(name, resources[name])} {name}" for name in names)


def _parsed(row: HeldRoom) -> dict[str, int]:
    """The amounts of a row; nonsense counts as none."""
    try:
        return {name: parse_amount(name, amount) for name, amount in row.requests.items()}
    except InvalidQuantity:
        return {}
