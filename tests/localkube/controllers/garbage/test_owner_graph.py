"""What happens to an object when its owners are deleted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubekit.objects.kinds import PODS
from kubekit.objects.meta import ObjectMeta, OwnerReference
from localkube.controllers.owner_graph import (
    FOREGROUND,
    ORPHAN,
    Item,
    OwnerGraph,
    OwnerState,
    Verdict,
    is_blocking,
    judge,
)


def item(uid: str, *owners: str, finalizers: tuple[str, ...] = (), deleting: bool = False) -> Item:
    references = tuple(OwnerReference("v1", "Pod", o, o, block_owner_deletion=True) for o in owners)
    gone = datetime(2026, 1, 1, tzinfo=UTC) if deleting else None
    meta = ObjectMeta(
        uid, "ns", uid, owner_references=references, finalizers=finalizers, deletion_timestamp=gone
    )
    return Item(PODS, meta)


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        ([OwnerState.EXISTS], Verdict()),
        ([OwnerState.GONE], Verdict(delete="Background")),
        ([OwnerState.TERMINATING], Verdict(delete="Foreground")),
        ([OwnerState.GONE, OwnerState.GONE], Verdict(delete="Background")),
        ([OwnerState.GONE, OwnerState.UNKNOWN], Verdict(wait=True)),
        ([OwnerState.EXISTS, OwnerState.EXISTS], Verdict()),
    ],
)
def test_an_object_is_deleted_when_no_owner_is_left(
    standing: list[OwnerState], expected: Verdict
) -> None:
    names = [f"o{number}" for number in range(len(standing))]

    assert judge(item("x", *names), dict(zip(names, standing, strict=True))) == expected


@pytest.mark.parametrize("other", [OwnerState.GONE, OwnerState.TERMINATING])
def test_an_object_with_another_owner_only_loses_the_reference(other: OwnerState) -> None:
    one = item("x", "here", "not")

    verdict = judge(one, {"here": OwnerState.EXISTS, "not": other})

    assert verdict == Verdict(owners=one.meta.owner_references[:1])


def test_objects_without_owners_or_being_deleted_are_kept() -> None:
    assert judge(item("x"), {}) == Verdict()
    assert judge(item("x", "o", deleting=True), {"o": OwnerState.GONE}) == Verdict()


@pytest.mark.parametrize(
    ("finalizer", "way"), [(ORPHAN, "Orphan"), (FOREGROUND, "Foreground"), ("x/y", "Background")]
)
def test_an_object_is_deleted_with_the_propagation_of_its_finalizers(
    finalizer: str, way: str
) -> None:
    assert judge(item("x", "o", finalizers=(finalizer,)), {"o": OwnerState.GONE}) == Verdict(
        delete=way
    )


def test_the_graph_forgets_former_owners() -> None:
    graph = OwnerGraph()
    graph.put(item("x", "a"))
    graph.put(item("x", "b"))

    assert graph.dependents("a") == []
    assert [dependent.meta.uid for dependent in graph.dependents("b")] == ["x"]
    graph.remove("x")
    assert graph.dependents("b") == []


def test_only_a_dependent_that_blocks_is_waited_for() -> None:
    assert is_blocking(item("x", "o"), "o")
    assert not is_blocking(item("x", "o"), "other")


def waiting(uid: str, *owners: str) -> Item:
    return item(uid, *owners, finalizers=(FOREGROUND,), deleting=True)


def blockers(uid: str, *items: Item) -> list[str]:
    graph = OwnerGraph()
    for each in items:
        graph.put(each)
    return [blocker.meta.uid for blocker in graph.blockers(uid)]


def test_an_owner_waits_for_its_dependents_until_the_whole_cycle_is_being_deleted() -> None:
    assert blockers("a", waiting("a", "b"), item("b", "a")) == ["b"]
    assert blockers("a", waiting("a", "b"), waiting("b", "a")) == []
    assert blockers("a", waiting("a", "a")) == []
    assert blockers("a", waiting("a", "c"), waiting("b", "a"), waiting("c", "b")) == []


def test_a_dependent_outside_the_cycle_still_blocks_its_owner() -> None:
    cycle = waiting("a", "b"), waiting("b", "a")
    held = item("c", "b", finalizers=("example.com/hold",), deleting=True)

    assert blockers("b", *cycle, held) == ["c"]
    assert blockers("a", *cycle, held) == []
