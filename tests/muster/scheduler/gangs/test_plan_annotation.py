"""The plan mark: what it says, and which gangs it takes for half-bound."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from kubekit.objects.core import Pod
from kubekit.objects.meta import Condition
from muster.contract.gang import PLAN_ANNOTATION
from muster.scheduler.gangs import plan_annotation
from muster.scheduler.gangs.members import Members
from muster.scheduler.gangs.plan_annotation import MAX_NAMED_PODS, PlanMark
from tests.muster.scheduler.builders import START, pod

replace = msgspec.structs.replace


def uids(n: int) -> list[str]:
    return [f"uid-{i}" for i in range(n)]


def bound(mark: str, second: float = 0.0) -> Pod:
    """A pod that a plan bound at that second."""
    at = START + timedelta(seconds=second)
    scheduled = Condition("PodScheduled", "True", last_transition_time=at)
    member = pod("bound", annotations={PLAN_ANNOTATION: mark})
    return replace(member, status=replace(member.status, conditions=(scheduled,)))


def members(bound: tuple[Pod, ...], pending: tuple[Pod, ...]) -> Members:
    return Members(bound, pending, (), (), ())


def test_a_plan_annotation_names_its_pods_unless_they_are_too_many() -> None:
    few, many = uids(MAX_NAMED_PODS), uids(MAX_NAMED_PODS + 1)

    assert plan_annotation.read(plan_annotation.write("p-1", 9, few)) == PlanMark(
        9, len(few), frozenset(few)
    )
    assert plan_annotation.read(plan_annotation.write("p-1", 9, many)) == PlanMark(9, len(many))
    assert len(plan_annotation.write("p-1", 9, ["x" * 36] * MAX_NAMED_PODS)) < 8000


@pytest.mark.parametrize("mark", ["p-1/0", "", "p-1", "p-1/x/3", "p-1/3", "p-1/3/x", "p-1/4+3-0/1"])
def test_an_invalid_plan_annotation_counts_like_that_of_a_gang_that_was_whole(mark: str) -> None:
    assert plan_annotation.read(mark) == PlanMark()


@pytest.mark.parametrize(("created", "cut_short"), [(9.0, True), (11.0, False)])
def test_a_plan_that_names_no_pods_is_judged_by_the_servers_times(
    created: float, cut_short: bool
) -> None:
    mark = plan_annotation.write("p-1", 300, uids(300))
    waiting = pod("waiting", created=created)

    sorted_members = members((bound(mark, 10.0),), (waiting,))

    assert plan_annotation.was_cut_short(sorted_members) is cut_short


def test_a_pod_that_the_plan_does_not_name_is_surplus() -> None:
    waiting = pod("waiting")
    mark = plan_annotation.write("p-1", 2, ["another", "bound"])
    own = plan_annotation.write("p-1", 2, [waiting.metadata.uid, "bound"])

    assert not plan_annotation.was_cut_short(members((bound(mark),), (waiting,)))
    assert plan_annotation.was_cut_short(members((bound(own),), (waiting,)))
