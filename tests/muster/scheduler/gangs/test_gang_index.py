"""The gang index: which pod is in which gang, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import convert
from msgspec.structs import replace

import muster
from kubekit.objects.core import Pod, PodDisruptionBudget, PriorityClass
from kubekit.objects.meta import Key
from muster.contract.gang import GangKey
from muster.contract.pod_groups import (
    KUBE_BATCH_POD_GROUPS,
    SIGS_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    NativeSpec,
)
from muster.scheduler.gangs.gang_index import GangIndex
from tests.muster.scheduler.builders import (
    KIND_OF,
    budget,
    coscheduling_group,
    native_group,
    pod,
    volcano_group,
)
from tests.work import calls_in

NAMES = ("muster", "kube-batchd", "kube-batch")


def gang_index(*items: Any) -> GangIndex:
    index = GangIndex(NAMES)
    for item in items:
        if isinstance(item, Pod):
            index.put_pod(item)
        else:
            index.put_group(KIND_OF[type(item)], item.metadata.key, item)
    return index


@pytest.mark.parametrize(
    ("dialect", "declared", "kind"),
    [
        ("volcano", volcano_group("g", 3), "volcano"),
        ("coscheduling", coscheduling_group("g", 3), "coscheduling"),
        ("native", native_group("g", 3), "native"),
        ("labels:3", None, "labels"),
        ("koordinator:3", None, "koordinator"),
    ],
)
def test_a_pod_names_its_gang(dialect: str, declared: Any, kind: str) -> None:
    member = pod("p", group="g", dialect=dialect)
    index = gang_index(*([declared] if declared else []), member)

    gang = index.gangs[GangKey(kind, "default", "g")]
    assert list(gang.pods.values()) == [member]
    assert gang.terms is not None
    assert gang.terms.min == 3


@pytest.mark.parametrize("kind", [VOLCANO_POD_GROUPS, KUBE_BATCH_POD_GROUPS, SIGS_POD_GROUPS])
def test_the_old_annotation_finds_the_group_in_any_of_its_three_api_groups(kind: Any) -> None:
    index = gang_index(pod("p", group="g"))
    group = volcano_group("g", 2)
    index.put_group(kind, group.metadata.key, group)

    gang = index.gangs[GangKey("volcano", "default", "g")]
    assert gang.kind is kind
    assert gang.terms is not None
    assert gang.terms.min == 2


def test_a_roles_minimum_holds_even_if_the_total_is_below_their_sum() -> None:
    index = gang_index(pod("p", group="g"), volcano_group("g", 1, roles={"PS": 1, "Worker": 4}))

    terms = index.gangs[GangKey("volcano", "default", "g")].terms
    assert terms is not None
    assert (terms.min, terms.roles) == (5, {"ps": 1, "worker": 4})


def test_a_native_group_without_the_gang_policy_is_not_a_gang() -> None:
    basic = replace(native_group("g", 4), spec=NativeSpec())
    index = gang_index(pod("p", group="g", dialect="native"), basic)

    terms = index.gangs[GangKey("native", "default", "g")].terms
    assert terms is not None
    assert terms.min == 1


def test_the_first_dialect_that_matches_wins() -> None:
    both = pod(
        "p",
        group="first",
        labels={"scheduling.x-k8s.io/pod-group": "second"},
    )

    assert list(gang_index(both).gangs) == [GangKey("volcano", "default", "first")]


def test_a_budget_declares_a_gang_of_the_pods_it_selects() -> None:
    index = gang_index(pod("p", scheduler="kube-batchd", labels={"job": "x"}))
    declared = budget("x", 4, {"job": "x"})
    index.put_budget(declared.metadata.key, declared)

    gang = index.gangs[GangKey("pdb", "default", "x")]
    assert [p.metadata.name for p in gang.pods.values()] == ["p"]
    assert gang.terms is not None
    assert gang.terms.min == 4


def test_the_pods_of_a_deleted_budget_are_gangs_of_one() -> None:
    index = gang_index(pod("p", scheduler="kube-batchd", labels={"job": "x"}))
    declared = budget("x", 4, {"job": "x"})
    index.put_budget(declared.metadata.key, declared)
    index.put_budget(declared.metadata.key, None)

    assert [k for k, g in index.gangs.items() if g.pods] == [GangKey("pod", "default", "p")]


BUDGETS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.none() | st.tuples(st.integers(0, 2), st.sampled_from([1, "50%"])),
    ),
    max_size=12,
)


@given(BUDGETS)
def test_the_gangs_of_budgets_do_not_depend_on_the_order_of_events(events: list[Any]) -> None:
    pods = [pod(f"p{job}", labels={"job": str(job)}, created=job) for job in range(3)]
    index = gang_index(*pods)
    last: dict[Key, PodDisruptionBudget | None] = {}
    for name, fields in events:
        item = None if fields is None else budget(name, fields[1], {"job": str(fields[0])})
        last[Key("default", name)] = item
        index.put_budget(Key("default", name), item)
    fresh = GangIndex(NAMES)
    for key, item in last.items():
        fresh.put_budget(key, item)
    for member in pods:
        fresh.put_pod(member)

    assert index.of_pod == fresh.of_pod
    assert {k: set(g.pods) for k, g in index.gangs.items() if g.pods} == {
        k: set(g.pods) for k, g in fresh.gangs.items() if g.pods
    }


def test_many_budgets_over_many_pods_cost_one_look_per_pair() -> None:
    """Whoever may create budgets in one namespace can create thousands over the same pods."""
    index = gang_index(*(pod(f"p{i}", labels={"job": "x"}) for i in range(40)))
    budgets = [budget(f"b{i:03}", 2, {"job": "x"}) for i in range(100)]
    with calls_in(muster) as calls:
        for item in (*budgets, *budgets):  # the second time nothing but their status is new
            index.put_budget(item.metadata.key, item)
        for i in range(50):
            index.put_pod(pod(f"q{i}", labels={"job": "x"}, namespace="other"))

    assert len(index.gangs[GangKey("pdb", "default", "b000")].pods) == 40
    assert calls.count < 150_000


@pytest.mark.parametrize(
    ("scheduler", "controller", "least"),
    [
        ("muster", "ReplicaSet", 2),
        ("muster", "StatefulSet", 2),
        ("muster", "TFJob", "50%"),
    ],
)
def test_the_budget_of_an_ordinary_service_is_not_a_gang(
    scheduler: str, controller: str, least: Any
) -> None:
    index = gang_index(pod("p", scheduler=scheduler, controller=controller, labels={"app": "x"}))
    declared = budget("x", least, {"app": "x"})
    index.put_budget(declared.metadata.key, declared)

    assert [k.dialect for k, g in index.gangs.items() if g.pods] == ["pod"]


def test_pods_for_other_schedulers_are_not_ours() -> None:
    assert (
        gang_index(pod("p", scheduler="default-scheduler"), pod("q", scheduler="volcano")).gangs
        == {}
    )


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    index = gang_index(
        pod("p", group="g", dialect="labels:2"),
        pod("p", group="g", dialect="labels:2", namespace="other"),
    )

    assert len(index.gangs) == 2


def test_the_groups_class_decides_the_priority_else_the_lowest_member() -> None:
    index = gang_index(
        volcano_group("classed", 1, priority_class="bronze"),
        pod("a", group="classed", priority=7),
        volcano_group("plain", 2),
        pod("b", group="plain", priority=7),
        pod("c", group="plain", priority=3),
    )
    index.put_priority_class("bronze", convert({"value": 1}, PriorityClass))

    assert index.priority(index.gangs[GangKey("volcano", "default", "classed")]) == 1
    assert index.priority(index.gangs[GangKey("volcano", "default", "plain")]) == 3


@pytest.mark.parametrize("dialect", ["volcano", "native", "native-number"])
@pytest.mark.parametrize("left", ["all", "failed", "none"])
def test_a_gangs_priority_is_never_above_that_of_its_lowest_member(dialect: str, left: str) -> None:
    group: Any = volcano_group("g", 2, priority_class="gold")
    if dialect != "volcano":
        group = native_group("g", 2)
        given = {"priority": 100} if dialect == "native-number" else {"priority_class_name": "gold"}
        group = replace(group, spec=replace(group.spec, **given))
    dialect = dialect.removesuffix("-number")
    members = [pod(f"p-{n}", group="g", dialect=dialect, priority=n) for n in (5, 3)]
    index = gang_index(group, *members)
    index.put_priority_class("gold", convert({"value": 100}, PriorityClass))
    if left == "failed":
        for member in members:
            index.put_pod(replace(member, status=replace(member.status, phase="Failed")))
    elif left == "none":
        for member in members:
            index.drop_pod(member.metadata.uid)

    assert index.priority(index.gangs[GangKey(dialect, "default", "g")]) == 3
