"""Other live schedulers of the same name, by their leases. Pure.

Two schedulers of one name bind the same pods, and neither holds room for the other's gangs. A
scheduler is live if it holds a Lease that it renewed lately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.contract.scheduler_rights import LEASE, name_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from kubekit.objects.core import Lease


DEFAULT_SCHEDULER = "default-scheduler"
"""The cluster's own scheduler, which every cluster has."""
LEASES_OF = {DEFAULT_SCHEDULER: ("kube-scheduler",)}
"""The lease names of schedulers whose lease is not named like themselves.

Volcano's lease is `volcano` (commit 04d59659), Koordinator's `koord-scheduler` (15d48f35). Others
have none by default: kube-batch locks a ConfigMap (1ebe60e4), kube-batchd and YuniKorn nothing, and
scheduler-plugins 0.35 does not elect. `muster install` and `muster doctor` find these by their
Deployments.
"""
ELECTED = "elected"
"""The holder of the leases of an elected scheduler: its replicas do not warn of each other."""
ALIVE_SECONDS = 60.0
"""How long after its last renewal a lease counts as live; longer for a lease that lasts longer."""
LEASE_FIELD_SELECTOR = "metadata.namespace!=kube-node-lease"
"""Leaves out the leases of nodes, of which there is one per node."""


class OtherScheduler(NamedTuple):
    """A live scheduler: the name it answers to, its lease, and the lease's holder and age."""

    name: str
    lease: str
    holder: str
    age: float

    def __str__(self) -> str:
        return (
            f"the scheduler of {self.name} is alive: {self.holder} renewed the lease "
            f"{self.lease} {max(0.0, self.age):.0f} s ago"
        )


def find_others(
    names: Iterable[str],
    leases: Iterable[Lease],
    now: datetime,
    *,
    gone: Callable[[str], bool] = lambda _: False,
) -> list[OtherScheduler]:
    """The live schedulers of these names, without holders of our leases that are `gone`."""
    others = []
    living = [(lease, age) for lease in leases if (age := _age(lease, now)) is not None]
    for name in names:
        # The lease of our own leader election is not another scheduler: the replicas share it.
        lease_names = {name, f"{name}-scheduler", *LEASES_OF.get(name, ())} - {LEASE}
        for lease, age in living:
            holder = lease.spec.holder_identity or ""
            duration = lease.spec.lease_duration_seconds or 0
            ours = lease.metadata.name == name_lease(name) and age < duration and not gone(holder)
            if ours or lease.metadata.name in lease_names:
                others.append(OtherScheduler(name, str(lease.metadata.key), holder, age))
    return sorted(others)


def is_alive(lease: Lease, now: datetime) -> bool:
    """Whether a lease has a holder that renewed it lately."""
    return _age(lease, now) is not None


def _age(lease: Lease, now: datetime) -> float | None:
    """Seconds since a lease was renewed; None if it was given up or has run out."""
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return None
    age = (now - spec.renew_time).total_seconds()
    return age if age < max(ALIVE_SECONDS, 2.0 * (spec.lease_duration_seconds or 0)) else None
