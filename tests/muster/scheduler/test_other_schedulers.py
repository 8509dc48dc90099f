"""A scheduler does not start under a name whose own scheduler is alive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kubekit.objects.core import Lease
from muster.contract.other_schedulers import find_others
from muster.contract.scheduler_rights import name_lease

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lease(
    name: str,
    *,
    age: float = 3,
    namespace: str = "kube-system",
    holder: str = "pod-1",
    lasts: int = 15,
) -> Lease:
    raw = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": lasts,
            "renewTime": (NOW - timedelta(seconds=age)).isoformat(),
        },
    }
    return msgspec.convert(raw, Lease)


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("default-scheduler", "kube-scheduler"),
        ("volcano", "volcano"),
        ("koord-scheduler", "koord-scheduler"),
        ("my-own", "my-own"),
        ("my-own", "my-own-scheduler"),
    ],
)
def test_a_lease_renewed_lately_shows_a_live_scheduler(name: str, held: str) -> None:
    others = find_others([name], [lease(held), lease("other")], NOW)

    assert [str(other) for other in others] == [
        f"the scheduler of {name} is alive: pod-1 renewed the lease kube-system/{held} 3 s ago"
    ]


@pytest.mark.parametrize(
    "gone",
    [
        lease("volcano", age=90),
        lease("volcano", holder=""),
        lease("kube-scheduler"),
        lease("muster-scheduler"),
    ],
)
def test_leases_that_ran_out_were_given_up_or_belong_to_others_show_none(gone: Lease) -> None:
    assert find_others(["volcano", "muster"], [gone], NOW) == []


def test_a_lease_that_lasts_long_is_alive_for_long() -> None:
    assert len(find_others(["volcano"], [lease("volcano", age=90, lasts=120)], NOW)) == 1


def test_another_muster_scheduler_of_the_name_is_found() -> None:
    others = find_others(
        ["muster", "volcano"], [lease(name_lease("volcano"), holder="host/7")], NOW
    )

    assert [(other.name, other.holder) for other in others] == [("volcano", "host/7")]


@pytest.mark.parametrize(
    "mark",
    [
        lease(name_lease("muster"), age=20),
        lease(name_lease("muster"), holder=""),
        lease(name_lease("muster"), holder="host/dead"),
        lease(name_lease("other")),
    ],
)
def test_a_name_lease_that_ran_out_was_given_up_or_whose_holder_died_is_ignored(
    mark: Lease,
) -> None:
    assert find_others(["muster"], [mark], NOW, gone=lambda who: who == "host/dead") == []
