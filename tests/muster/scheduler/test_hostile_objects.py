"""What strangers write into their objects never ends the scheduler, and others do not notice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

import muster
from muster.contract import gang as marks
from muster.contract.gang import GangKey
from muster.scheduler.effects.reporter import group_status
from muster.scheduler.effects.waiting_line_publisher import encode_line, held_rooms, waiting_gangs
from tests.muster.scheduler.builders import budget, gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, replace
from tests.muster.scheduler.hostile_objects import DEEP, DIGITS, EARLY, HOSTILE, NODE
from tests.muster.words import tells
from tests.work import calls_in

pytestmark = pytest.mark.looptime

OWN = {"tolerations": [{"key": "own", "value": "h", "effect": "NoSchedule"}]}


def cluster_beside(*hostile: Any) -> FakeCluster:
    """A healthy gang `h` with a node for itself, and a node for strangers with their objects."""
    cluster = FakeCluster()
    cluster.add(node(NODE, gpus=4), node("own", gpus=2, taints=(("own", "h", "NoSchedule"),)))
    cluster.add(*hostile)
    cluster.add(volcano_group("h", 2, created=1), *gang("h", 2, gpus=1, created=1, spec=OWN))
    return cluster


async def check(cluster: FakeCluster) -> None:
    """The healthy gang runs, and everything that is written about all gangs can be written."""
    await cluster.run(2.0)

    assert set(cluster.bound("h-")) == {"h-0", "h-1"}
    state = cluster.state
    encode_line(waiting_gangs(state, state.now), held_rooms(state))
    for row in state.index.gangs.values():
        reason = state.record(row.key).rest.reason
        msgspec.json.encode(group_status(state, row, reason, "", "v1"))


def marked(**annotations: str) -> list[Any]:
    """A gang of two that is bound, with an annotation on its group and its pods."""
    names = {f"muster.dev/{name}": text for name, text in annotations.items()}
    pods = gang("g", 2, annotations=names, spec={"nodeName": NODE})
    return [
        volcano_group("g", 3, annotations=names),
        *pods,
        pod("g-2", group="g", annotations=names),
    ]


def in_dialect(dialect: str) -> list[Any]:
    return gang("g", 2, dialect=dialect)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def rules(count: int, labels: Mapping[str, str] = {}) -> dict[str, Any]:
    """Fields of a pod's spec with that many rules."""
    exists = [{"key": "a", "operator": "Exists"}]
    selector = {"matchExpressions": exists, "matchLabels": labels}
    keys = [f"k{number}" for number in range(count)]
    terms = [{"topologyKey": key, "labelSelector": selector} for key in keys]
    required = REQUIRED
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    exists = [{"key": key, "operator": "Exists"} for key in keys]
    spread = [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term} for term in terms]
    nodes = {required: {"nodeSelectorTerms": [{"matchExpressions": exists}]}}
    return {
        "spread": {"topologySpreadConstraints": spread},
        "affinity": {"affinity": {"podAffinity": {required: terms}}},
        "anti-affinity": {"affinity": {"podAntiAffinity": {required: terms}}},
        "preferred": {"affinity": {"podAffinity": {preferred: weighted}}},
        "node affinity": {"affinity": {"nodeAffinity": nodes}},
        "selector": {"nodeSelector": dict.fromkeys(keys, "v")},
        "resources": {
            "containers": [{"resources": {"requests": {f"x.io/{key}": "1" for key in keys}}}]
        },
    }


@pytest.mark.parametrize("kind", rules(1))
async def test_a_pod_with_thousands_of_rules_costs_others_little_work(kind: str) -> None:
    spec = rules(2000)[kind]
    bound = [pod(f"b{i}", spec={**spec, "nodeName": NODE}) for i in range(5)]
    cluster = cluster_beside(*bound, *(pod(f"p{i}", group="g", spec=spec) for i in range(5)))
    cluster.add(volcano_group("g", 5))
    with calls_in(muster) as calls:
        await check(cluster)

    assert (cluster.code("g"), tells(cluster.reason("g"), "100")) == ("Unsupported", True)
    assert cluster.bound("p") == {}
    assert len(cluster.state.snapshot.classes.resources) < 10
    assert calls.count < 100_000


@pytest.mark.parametrize("kind", ["spread", "anti-affinity", "preferred", "affinity"])
async def test_label_keys_in_the_rules_of_strangers_cost_others_nothing(kind: str) -> None:
    """One selector may name as many keys as an object may have bytes."""
    cluster = cluster_beside()
    for number in range(5):
        spec = rules(1, {f"{number}-{key}": "v" for key in range(2000)})[kind]
        cluster.add(
            pod(f"b{number}", spec={**spec, "nodeName": NODE}), pod(f"p{number}", spec=spec)
        )
    await check(cluster)
    cluster.state.snapshot.settle()

    assert (cluster.code("p0"), tells(cluster.reason("p0"), "100")) == ("Unsupported", True)
    assert len(cluster.state.snapshot.classes.interesting) < 1000


async def test_names_that_strangers_give_are_forgotten_with_their_pods() -> None:
    """Each pod has other resources, label keys and topology keys, and is deleted at once."""
    cluster = cluster_beside()
    for number in range(40):
        names = [f"{number}-{key}" for key in range(40)]
        terms = [
            {"topologyKey": f"t{name}", "labelSelector": {"matchLabels": {name: "v"}}}
            for name in names
        ]
        requests = {f"x.io/{name}": "1" for name in names}
        spec = {
            "containers": [{"resources": {"requests": requests}}],
            "affinity": {"podAntiAffinity": {REQUIRED: terms}},
        }
        cluster.add(pod(f"p{number}", spec=spec))
        cluster.add(pod(f"q{number}", spec={"affinity": spec["affinity"]}))
        await cluster.run(1.0)
        cluster.delete_pod(f"p{number}")
        cluster.delete_pod(f"q{number}")
    await check(cluster)

    snapshot = cluster.state.snapshot
    assert len(snapshot.classes.resources) < 10
    assert len(snapshot.classes.interesting) <= 1000
    assert len(snapshot.nodes._labels) <= 300


LATE = [
    '{"a":' * 30_000,
    DEEP,
    r'{"launcher": {"cpu": "\ud800"}}',
    r'{"\ud800": {"cpu": "1"}}',
    '{"launcher": {"cpu": ' + DIGITS + "}}",
    json.dumps({f"r{i}": {} for i in range(5000)}),
    json.dumps({"launcher": {f"x.io/{i}": "1" for i in range(2000)}}),
]


@pytest.mark.parametrize("minimum", [DIGITS, "²", "٣", "9" * 4301])
@pytest.mark.parametrize("dialect", ["koordinator", "labels"])
async def test_a_minimum_that_is_not_a_number(dialect: str, minimum: str) -> None:
    await check(cluster_beside(*in_dialect(f"{dialect}:{minimum}")))


@pytest.mark.parametrize("plan", [f"p/{DIGITS}/2/a", f"p/3/{DIGITS}/a", f"p/3+{DIGITS}-x", "p/²/²"])
async def test_a_plan_with_numbers_that_are_none(plan: str) -> None:
    await check(cluster_beside(*marked(plan=plan)))


@pytest.mark.parametrize("when", [EARLY, "9999-12-31T23:59:59-23:59", "2026-01-01", DIGITS])
@pytest.mark.parametrize("reason", ["Released", "Preempted", "x" * 500, ""])
async def test_a_deletion_mark_that_cannot_be_read_deletes_nothing(reason: str, when: str) -> None:
    cluster = cluster_beside(*marked(takedown=f"{reason}/{when}"))
    await check(cluster)

    assert not cluster.deletes


async def test_the_reason_of_a_deletion_is_one_of_ours() -> None:
    cluster = cluster_beside(*marked(takedown="my own text/2026-01-01T00:00:00Z"))
    await check(cluster)

    assert not cluster.deletes
    cluster = cluster_beside(*marked(takedown="Released/2026-01-01T00:00:00Z"))
    await check(cluster)
    assert {delete.reason for delete in cluster.deletes} == {"Released"}


@pytest.mark.parametrize("late", LATE, ids=range(len(LATE)))
async def test_late_members_that_cannot_be_read(late: str) -> None:
    cluster = cluster_beside(
        volcano_group("g", 2, annotations={marks.LATE_ANNOTATION: late}), *gang("g", 2, gpus=1)
    )
    await check(cluster)

    assert len(cluster.bound("g-")) == 2
    assert not cluster.state.snapshot.held_for


@pytest.mark.parametrize("late", LATE, ids=range(len(LATE)))
async def test_late_members_on_a_budget(late: str) -> None:
    row = budget("g", 2, {"gang": "g"})
    row = replace(row, metadata=replace(row.metadata, annotations={marks.LATE_ANNOTATION: late}))
    cluster = cluster_beside(row, *gang("g", 2, dialect="pdb"))
    await check(cluster)

    assert len(cluster.bound("g-")) == 2


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e308h", DIGITS, "-5", "٣"])
async def test_a_hold_that_is_not_a_duration_is_the_default(seconds: str) -> None:
    cluster = cluster_beside(
        volcano_group("g", 2, annotations={marks.HOLD_ANNOTATION: seconds}), *gang("g", 2)
    )
    await check(cluster)
    cluster.finish("g-0", "Failed")

    (slot,) = cluster.state.snapshot.held_for[GangKey("volcano", "default", "g")].values()
    assert slot.hold is not None
    assert slot.hold.until - cluster.state.now == pytest.approx(cluster.settings.hold_seconds)


@pytest.mark.parametrize("rows", [5, True, "x", [{"key": 5}], [{"key": {}}], [5], {"key": "a"}])
async def test_a_constraint_in_an_unknown_form_is_not_served(rows: Any) -> None:
    from tests.muster.scheduler.builders import native_group

    group = native_group("g", 2, {"schedulingConstraints": {"topology": rows}})
    cluster = cluster_beside(group, *gang("g", 2, dialect="native"))
    await check(cluster)

    assert not cluster.bound("g-")
    assert cluster.code("g") == "Unsupported"
    assert "in an unknown form" in cluster.reason("g")


async def test_thousands_of_containers_that_request_more_than_any_node_has() -> None:
    rows = [{"name": f"c{i}", "resources": {"requests": {"cpu": "1e30"}}} for i in range(3000)]
    cluster = cluster_beside(pod("g", spec={"containers": rows}))
    await check(cluster)

    assert cluster.code("g") == "FitsNowhere"


async def test_weights_that_no_array_holds() -> None:
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    rows = [{"weight": weight, "podAffinityTerm": term} for weight in (2**63 - 1, -(2**63))]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": rows}
    affinity = {"podAffinity": preferred, "podAntiAffinity": preferred}
    pods = (pod(f"g{i}", labels={"a": "b"}, spec={"affinity": affinity}) for i in range(3))
    cluster = cluster_beside(*pods)
    await check(cluster)

    assert len(cluster.bound("g")) == 3


@settings(max_examples=150)
@given(HOSTILE)
async def test_any_text_in_any_field_leaves_others_alone(hostile: list[Any]) -> None:
    await check(cluster_beside(*hostile))
