"""A scheduler does not start under a name whose own scheduler is alive."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from muster.api.core import Lease
from muster.scheduler.presence import holder, is_gone
from muster.scheduler.rivals import mark_of, rivals

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
        ("volcano", "vc-scheduler"),
        ("volcano", "volcano"),
        ("kube-batchd", "kube-batch"),
        ("my-own", "my-own"),
        ("my-own", "my-own-scheduler"),
    ],
)
def test_a_lease_renewed_lately_is_a_rival(name: str, held: str) -> None:
    found = rivals([name], [lease(held), lease("other")], NOW)

    assert [str(one) for one in found] == [
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
def test_leases_that_ran_out_were_given_up_or_belong_to_others_are_none(gone: Lease) -> None:
    assert rivals(["volcano", "muster"], [gone], NOW) == []


def test_a_lease_that_lasts_long_is_alive_for_long() -> None:
    assert len(rivals(["volcano"], [lease("volcano", age=90, lasts=120)], NOW)) == 1


def test_another_of_ours_that_answers_to_the_name_is_a_rival() -> None:
    found = rivals(["muster", "volcano"], [lease(mark_of("volcano"), holder="host/7")], NOW)

    assert [(one.name, one.holder) for one in found] == [("volcano", "host/7")]


@pytest.mark.parametrize(
    "mark",
    [
        lease(mark_of("muster"), age=20),
        lease(mark_of("muster"), holder=""),
        lease(mark_of("muster"), holder="host/dead"),
        lease(mark_of("other")),
    ],
)
def test_a_mark_that_ran_out_was_taken_away_or_is_of_one_that_died_is_none(mark: Lease) -> None:
    assert rivals(["muster"], [mark], NOW, gone=lambda who: who == "host/dead") == []


def test_only_a_process_of_this_machine_is_known_to_have_died() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()

    assert is_gone(holder(child.pid))
    assert is_gone(holder(os.getpid()))
    assert not is_gone(holder(os.getppid()))
    assert not is_gone("another-host/1")
    assert not is_gone("elected")
