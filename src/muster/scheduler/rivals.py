"""Other schedulers that are alive under a name we are asked to answer to.

Asked by `muster scheduler` before it starts: two schedulers of one name bind the same pods, and
neither keeps room for the other's gangs. A scheduler is alive if it holds a Lease that it renewed
lately; ours mark every name they answer to with one (`presence`). Pure: the leases and the clock
are arguments.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from muster.api.core import Lease

OURS = "muster-scheduler"
LEASES_OF = {
    "default-scheduler": ("kube-scheduler",),
    "volcano": ("volcano", "vc-scheduler"),
    "scheduler-plugins-scheduler": ("scheduler-plugins-scheduler", "sig-scheduling"),
    "koord-scheduler": ("koord-scheduler",),
    "kube-batchd": ("kube-batchd", "kube-batch"),
    "yunikorn": ("yunikorn", "yunikorn-scheduler"),
}
"""What schedulers call their lease where it is not named like themselves."""
ELECTED = "elected"
"""Who holds the marks of a scheduler that was elected: its replicas wait their turn beside it."""
LATELY = 60.0
"""Seconds; longer where the lease itself runs longer."""
FIELDS = "metadata.namespace!=kube-node-lease"
"""Selects the leases worth reading: every node renews one of its own."""


class Rival(NamedTuple):
    """A scheduler that is alive: the name it answers to, its lease, and the lease's age."""

    name: str
    lease: str
    holder: str
    age: float

    def __str__(self) -> str:
        return (
            f"the scheduler of {self.name} is alive: {self.holder} renewed the lease "
            f"{self.lease} {max(0.0, self.age):.0f} s ago"
        )


def mark_of(name: str) -> str:
    """The lease that marks a scheduler of ours which answers to a name."""
    return f"{OURS}.{re.sub('[^a-z0-9-]', '-', name.lower()).strip('-')}"


def rivals(
    names: Iterable[str],
    leases: Iterable[Lease],
    now: datetime,
    *,
    gone: Callable[[str], bool] = lambda _: False,
) -> list[Rival]:
    """Those that are alive, by name, but for holders that are `gone`.

    The lease of an election is no rival: its replicas share it.
    """
    found = []
    living = [(lease, age) for lease in leases if (age := _age(lease, now)) is not None]
    for name in names:
        called = {name, f"{name}-scheduler", *LEASES_OF.get(name, ())} - {OURS}
        marks = [(lease, age) for lease, age in living if lease.metadata.name == mark_of(name)]
        for lease, age in marks:
            who = lease.spec.holder_identity or ""
            if age < (lease.spec.lease_duration_seconds or 0) and not gone(who):
                found.append(Rival(name, str(lease.metadata.key), who, age))
        for lease, age in living:
            if lease.metadata.name in called:
                holder = lease.spec.holder_identity or ""
                found.append(Rival(name, str(lease.metadata.key), holder, age))
    return sorted(found)


def _age(lease: Lease, now: datetime) -> float | None:
    """Seconds since it was renewed; None if it was given up or has run out."""
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return None
    age = (now - spec.renew_time).total_seconds()
    return age if age < max(LATELY, 2.0 * (spec.lease_duration_seconds or 0)) else None
