"""A bug that one gang brings out: that gang waits, its state is as before, and no other notices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from muster.contract.gang import GangKey
from muster.scheduler import daemon, isolated_errors
from muster.scheduler.decisions import gang_decision, unplaced_gang, volume_provisioning
from muster.scheduler.decisions.decision import FIRST_PAUSE, GangView
from muster.scheduler.effects.reporter import Reporter
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.waiting_line import Parked
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests import unexpected_errors
from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster
from tests.muster.scheduler.volume_builders import claim, cluster_of, using

pytestmark = pytest.mark.looptime
BAD = GangKey("volcano", "default", "bad")


@pytest.fixture(autouse=True)
def as_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated_errors, "STRICT", False)


def counted(step: str, component: str = "scheduler") -> float:
    return unexpected_errors.counted().get(f"{component} {step}", 0)


class Fault:
    """Raises in the middle of the decisions about one gang, while it is switched on."""

    def __init__(self, name: str) -> None:
        self.name, self.on, self.raised = name, True, 0

    def raise_for(self, view: GangView) -> None:
        if self.on and view.key.name == self.name:
            self.raised += 1
            raise ZeroDivisionError("a bug")

    def after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, and then the error: as late as possible."""

        def wrapped(view: GangView, *arguments: Any) -> Any:
            result = function(view, *arguments)
            self.raise_for(view)
            return result

        return wrapped

    def install(self, patch: pytest.MonkeyPatch, module: Any, function: str) -> Fault:
        patch.setattr(module, function, self.after(getattr(module, function)))
        return self


def check_room(cluster: FakeCluster) -> None:
    """The free room is what a fresh count of the pods gives: nothing is occupied in vain."""
    fresh = State(cluster.settings)
    for item in cluster.nodes.values():
        fresh.node_changed(None, item)
    for member in cluster.pods.values():
        fresh.pod_changed(None, member)
    ours, theirs = cluster.state.snapshot, fresh.snapshot
    ours.settle()
    theirs.settle()
    for name, column in theirs.classes.resources.items():
        here = ours.nodes.free[ours.classes.column(name)]
        assert here.tolist() == theirs.nodes.free[column].tolist(), name


STEPS = ["_view", "_verdict", "_fill", "_place", "_trial", "_bind", "_report", "_decision"]


@pytest.mark.parametrize("step", STEPS)
async def test_an_error_at_any_step_leaves_room_and_other_gangs_alone(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, broken = getattr(gang_decision, step), [True]

    def wrapped(*arguments: Any) -> Any:
        result = original(*arguments)
        if broken and BAD in (getattr(argument, "key", None) for argument in arguments):
            raise ZeroDivisionError("a bug")
        return result

    monkeypatch.setattr(gang_decision, step, wrapped)
    before = counted("decision")
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("bad", 2), *gang("bad", 2, gpus=1))
    cluster.add(volcano_group("good", 2, created=1), *gang("good", 2, gpus=1, created=1))
    async with cluster.running():
        await cluster.settle(2.0)

        assert set(cluster.bound()) == {"good-0", "good-1"}
        assert cluster.reason("bad").startswith("an error in the scheduler itself (ZeroDivision")
        assert counted("decision") > before
        assert not cluster.state.assumed
        check_room(cluster)
        broken.clear()
        await cluster.settle(FIRST_PAUSE + 1)

    assert len(cluster.bound("bad")) == 2
    assert cluster.reason("bad") == ""


async def test_a_gang_that_fails_is_tried_less_and_less_often_and_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = Fault("bad").install(monkeypatch, gang_decision, "_verdict")
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("bad", 2), *gang("bad", 2, gpus=1))
    async with cluster.running():
        await cluster.settle(3600.0)
        assert 10 < fault.raised < 30
        assert len([row for row in cluster.reports if row.gang == BAD]) == 1
        tries = fault.raised
        cluster.add(volcano_group("bad", 1))
        await cluster.settle(1.0)

    assert fault.raised == tries + 1


async def test_a_half_bound_gang_keeps_its_pods_and_its_holds_end_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = Fault("bad").install(monkeypatch, gang_decision, "_fill")
    fault.on = False
    cluster = FakeCluster(Settings(hold_seconds=60.0))
    cluster.add(node("n1", gpus=2), volcano_group("bad", 2), *gang("bad", 2, gpus=1))
    async with cluster.running():
        await cluster.settle(1.0)
        assert len(cluster.bound("bad")) == 2
        fault.on = True
        cluster.finish("bad-1", "Failed")
        cluster.add(pod("other", gpus=1, created=5))
        await cluster.settle(30.0)

        assert fault.raised
        assert set(cluster.bound()) == {"bad-0"}, "the room of the lost member is held"
        await cluster.settle(60.0)

        assert set(cluster.bound()) == {"bad-0", "other"}, "a hold ends although its gang fails"
        assert not cluster.deletes
        check_room(cluster)


async def test_holds_that_a_decision_dropped_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault("bad").install(monkeypatch, gang_decision, "_bind")
    fault.on = False
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("bad", 2), *gang("bad", 2, gpus=1))
    async with cluster.running():
        await cluster.settle(1.0)
        fault.on = True
        cluster.finish("bad-1", "Failed")
        cluster.add(pod("bad-2", group="bad", gpus=1), pod("other", gpus=1, created=5))
        await cluster.settle(2.0)

        assert fault.raised
        assert set(cluster.bound()) == {"bad-0"}
        assert len(cluster.state.snapshot.held_for[BAD]) == 1
        fault.on = False
        await cluster.settle(30.0)

    assert set(cluster.bound()) == {"bad-0", "bad-2"}


async def test_gangs_that_a_failed_decision_would_have_evicted_run_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = Fault("bad").install(monkeypatch, gang_decision, "_report")
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("low", 2), *gang("low", 2, gpus=1))
    async with cluster.running():
        await cluster.settle(1.0)
        cluster.add(volcano_group("bad", 2), *gang("bad", 2, gpus=1, priority=5))
        await cluster.settle(2.0)

        assert fault.raised
        assert len(cluster.bound("low")) == 2
        low = cluster.state.records[GangKey("volcano", "default", "low")]
        assert isinstance(low.phase, phase.Whole)
        assert BAD not in cluster.state.snapshot.held_for
        fault.on = False
        await cluster.settle(30.0)

    assert len(cluster.bound("bad")) == 2
    assert not cluster.bound("low")


async def test_volumes_that_a_failed_decision_chose_are_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = Fault("bad").install(monkeypatch, volume_provisioning, "write_choices")
    cluster = cluster_of("n1")
    claim(cluster, "data")
    cluster.add(volcano_group("bad", 1), pod("bad-0", group="bad", spec=using("data")))
    async with cluster.running():
        await cluster.settle(2.0)

        assert fault.raised
        assert not cluster.state.snapshot.volumes.chosen
        assert not cluster.provisions
        fault.on = False
        await cluster.settle(30.0)

    assert len(cluster.provisions) == 1


async def test_a_starving_gang_that_fails_reserves_no_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = Fault("bad").install(monkeypatch, unplaced_gang, "park")
    fault.on = False
    cluster = FakeCluster(Settings(starvation_after=10.0))
    cluster.add(node("n1", gpus=2), pod("first", gpus=1))
    cluster.add(volcano_group("bad", 2), *gang("bad", 2, gpus=1))
    async with cluster.running():
        await cluster.settle(20.0)
        assert BAD in cluster.state.starving
        fault.on = True
        cluster.add(volcano_group("bad", 2, annotations={"changed": "yes"}))
        await cluster.settle(1.0)

        assert BAD not in cluster.state.starving


async def test_a_gang_whose_place_cannot_be_computed_is_last_in_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = State._place_of

    def place_of(self: State, key: GangKey) -> Any:
        if key == BAD:
            raise ZeroDivisionError("a bug")
        return original(self, key)

    monkeypatch.setattr(State, "_place_of", place_of)
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("bad", 2), *gang("bad", 2, gpus=1))
    cluster.add(volcano_group("good", 2, created=1), *gang("good", 2, gpus=1, created=1))
    await cluster.run()

    assert set(cluster.bound()) == {"good-0", "good-1"}


async def test_an_event_that_cannot_be_taken_in_concerns_its_object_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client: Any = object()
    service = daemon.Service(client, Settings(), daemon.Options(), None)
    original, before = service.state.index.put_pod, counted("of pods", "watch")

    def put_pod(item: Any) -> Any:
        if item.metadata.name == "bad":
            raise ZeroDivisionError("a bug")
        return original(item)

    monkeypatch.setattr(service.state.index, "put_pod", put_pod)
    pods = service.informers[0]
    changes = pods._cache.replace([pod("bad"), pod("good")])
    pods._notify(changes)

    assert counted("of pods", "watch") == before + 1
    assert [key.name for key in service.state.index.gangs] == ["good"]


async def test_a_report_that_raises_concerns_its_gang_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, client = FakeCluster(Settings(report_after=0.0)), Writes()
    reporter = Reporter(client, cluster.state)  # type: ignore[arg-type]
    original = reporter._report_group

    async def report_group(row: Any, *arguments: Any) -> bool:
        if row.key == BAD:
            raise ZeroDivisionError("a bug")
        return await original(row, *arguments)

    monkeypatch.setattr(reporter, "_report_group", report_group)
    before = counted("report")
    cluster.add(volcano_group("bad", 2), *gang("bad", 1))
    cluster.add(volcano_group("good", 2), *gang("good", 1))
    async with cluster.running():
        task = asyncio.create_task(reporter.run())
        await cluster.settle(1.0)
        for row in cluster.reports:
            reporter.report(row)
        await cluster.settle(1.0)
        task.cancel()

    assert counted("report") == before + 1
    assert "good-0" in client.names
    assert "bad-0" not in client.names


class Writes:
    """A client that notes the names of what is written."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def patch(self, _: Any, key: Any, *arguments: Any, **options: Any) -> None:
        self.names.append(key.name)

    async def patch_status(self, _: Any, metadata: Any, *arguments: Any) -> None:
        self.names.append(metadata.name)

    async def create(self, *arguments: Any) -> None: ...


def test_in_tests_an_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated_errors, "STRICT", True)
    with pytest.raises(ZeroDivisionError), isolated_errors.isolated("decision", "x"):
        raise ZeroDivisionError


async def test_the_rest_after_an_error_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    Fault("bad").install(monkeypatch, gang_decision, "_verdict")
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("bad", 2), *gang("bad", 2, gpus=1))
    await cluster.run()

    rest = cluster.state.records[BAD].rest
    assert isinstance(rest, Parked)
    assert rest.until is not None
    assert cluster.state.line.timer_of(BAD) == rest.until
