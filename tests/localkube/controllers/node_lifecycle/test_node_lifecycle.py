"""Nodes without heartbeats: their conditions, taints and evictions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kubekit.control.loop import RequeueAfter
from kubekit.objects.meta import MAX_SECONDS, Key, ObjectMeta, timestamp
from kubekit.request_errors import Invalid, NotFound
from kubekit.watch.informer_cache import InformerCache
from localkube.controllers import node_lifecycle, node_taints
from localkube.controllers.node_lifecycle import NodeHeartbeats, PodGc
from localkube.controllers.workloads import Node, Pod
from tests.builders import pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Raw = dict[str, Any]


def node(ready: str = "True", *taints: Raw, **spec: Any) -> Node:
    rows = [
        {"type": "Ready", "status": ready, "reason": "r", "message": "m"},
        {"type": "MemoryPressure", "status": "False", "reason": "r", "message": "m"},
    ]
    body = {
        "metadata": {"name": "n"},
        "spec": {"taints": list(taints), **spec},
        "status": {"conditions": rows},
    }
    return msgspec.convert(body, Node)


def taint(key: str = node_taints.UNREACHABLE, effect: str = "NoExecute", ago: int = 0) -> Raw:
    return {"key": key, "effect": effect, "timeAdded": timestamp(NOW - timedelta(seconds=ago))}


def keys(rows: list[Raw] | None) -> set[tuple[str, str]]:
    return {(row["key"], row["effect"]) for row in rows or ()}


@pytest.mark.parametrize(
    ("ready", "key"), [("False", node_taints.NOT_READY), ("Unknown", node_taints.UNREACHABLE)]
)
def test_a_node_that_is_not_ready_gets_both_taints(ready: str, key: str) -> None:
    wanted = node_taints.taints(node(ready), NOW)

    assert keys(wanted) == {(key, "NoSchedule"), (key, "NoExecute")}
    assert keys(node_taints.taints(node(ready), NOW, evicts=False)) == {(key, "NoSchedule")}


def test_a_ready_node_loses_our_taints_and_keeps_other_taints() -> None:
    theirs = {"key": "gpu", "effect": "NoSchedule", "value": "yes"}

    assert node_taints.taints(node("True", taint(), theirs), NOW) == [theirs]
    assert node_taints.taints(node("True", theirs), NOW) is None


def test_a_taint_that_stays_keeps_its_time() -> None:
    known = [taint(ago=60), taint(effect="NoSchedule", ago=60)]

    assert node_taints.taints(node("Unknown", *known), NOW) is None


def test_a_cordoned_node_is_tainted() -> None:
    wanted = node_taints.taints(node("True", unschedulable=True), NOW)

    assert keys(wanted) == {(node_taints.UNSCHEDULABLE, "NoSchedule")}


def test_unknown_conditions_are_written_once() -> None:
    rows = {row["type"]: row["reason"] for row in node_taints.unknown_conditions(node(), NOW)}

    assert rows["Ready"] == rows["MemoryPressure"] == "NodeStatusUnknown"
    assert rows["DiskPressure"] == "NodeStatusNeverUpdated"
    unknown = [
        {"type": kind, "status": "Unknown"}
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    silenced = msgspec.convert({"status": {"conditions": unknown}}, Node)
    assert node_taints.unknown_conditions(silenced, NOW) == []


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0),
        ([{"operator": "Exists"}], None),
        ([{"key": node_taints.UNREACHABLE, "operator": "Exists", "tolerationSeconds": 300}], 200),
        ([{"key": node_taints.UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}], None),
        ([{"key": node_taints.UNREACHABLE, "operator": "Exists", "effect": "NoSchedule"}], 0),
        ([{"key": "other", "operator": "Exists"}], 0),
        ([{"operator": "Exists", "tolerationSeconds": -5}], -100),
        ([{"operator": "Exists", "tolerationSeconds": 10**18}], MAX_SECONDS - 100),
    ],
)
def test_a_pod_stays_as_long_as_it_tolerates(tolerations: list[Raw], expected: int | None) -> None:
    tainted = node("Unknown", taint(ago=100))
    tolerant = msgspec.convert(pod(tolerations=list(tolerations)), Pod)

    at = node_lifecycle.evict_at(tolerant, tainted.spec.taints, NOW)

    assert at == (None if expected is None else NOW + timedelta(seconds=expected))


class Place:
    """One node, in place of informers and client."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.silenced = 0
        self.nodes = self.pods = self

    def get(self, key: Key) -> Node:
        return self.node

    def all(self) -> list[Node]:
        return [self.node]

    def by(self, index: str, value: str) -> list[Pod]:
        return []

    async def patch(self, kind: Any, key: Key, body: Raw) -> None:
        pass

    async def patch_status(self, kind: Any, meta: ObjectMeta, status: Raw) -> None:
        self.silenced += 1


@pytest.mark.looptime
@pytest.mark.parametrize(("away", "silenced"), [(0.0, 1), (60.0, 0)])
async def test_heartbeats_missed_while_we_were_suspended_do_not_count(
    away: float, silenced: int
) -> None:
    place: Any = Place(node())
    heartbeats = NodeHeartbeats(place, place, lambda: NOW, grace=50.0)
    first = await heartbeats.reconcile(Key("", "n"))
    assert first == RequeueAfter(50.0)

    await asyncio.sleep(50.0 + away)
    then = await heartbeats.reconcile(Key("", "n"))

    assert place.silenced == silenced
    assert then == (None if silenced else RequeueAfter(50.0))
    await asyncio.sleep(50.0)
    await heartbeats.reconcile(Key("", "n"))
    assert place.silenced, "a node that stays silent while we listen"


class DeletedNode(Place):
    """A node that no longer exists, and a server that does not change one of its pods."""

    def __init__(self) -> None:
        super().__init__(node())
        self.removed: list[str] = []
        self.nodes: Any = InformerCache({})

    def get(self, *_: Any) -> Any:
        raise NotFound("nodes n not found", status=404)

    def by(self, index: str, value: str) -> list[Pod]:
        return [msgspec.convert(pod(name, nodeName="n"), Pod) for name in ("bad", "good")]

    async def patch_status(self, kind: Any, meta: ObjectMeta, status: Raw) -> None:
        if meta.name == "bad":
            raise Invalid("pods bad is invalid", status=422)

    async def delete(self, kind: Any, key: Key, **options: Any) -> None:
        self.removed.append(key.name)


@pytest.mark.looptime
async def test_a_pod_that_cannot_be_removed_holds_up_no_other_pod_of_a_deleted_node() -> None:
    place: Any = DeletedNode()
    pod_gc = PodGc(place, place, lambda: NOW, grace=0.0)

    with pytest.raises(ExceptionGroup):  # the loop tries again
        await pod_gc.reconcile(Key("", "n"))

    assert place.removed == ["good"]
