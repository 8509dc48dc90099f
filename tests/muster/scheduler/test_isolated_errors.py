"""A bug that one gang brings out: that gang waits, its state is as before, and no other notices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from kubekit.client.client import Client
from kubekit.client.request import Request, Response
from kubekit.objects.kinds import NODES, PODS, Kind
from kubekit.objects.storage import STORAGE_CLASSES, VOLUME_CLAIMS
from muster.contract.gang import GangKey
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from muster.scheduler import daemon, isolated_errors, loop
from muster.scheduler.cluster.nodes import NodeTable
from muster.scheduler.cluster.pod_class import PodClasses
from muster.scheduler.decisions import (
    gang_decision,
    gang_deletion,
    unplaced_gang,
    volume_provisioning,
)
from muster.scheduler.decisions.decision import FIRST_PAUSE, GangView
from muster.scheduler.effects import waiting_line_publisher
from muster.scheduler.effects.reporter import Reporter
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.waiting_line import Parked
from muster.scheduler.placement import filters
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests import unexpected_errors
from tests.api_in_memory import ApiInMemory
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


async def test_no_room_is_kept_for_a_starving_gang_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = Fault("bad").install(monkeypatch, unplaced_gang, "park")
    fault.on = False
    cluster = FakeCluster(Settings(starvation_after=10.0))
    cluster.add(node("n1", gpus=2), pod("first", gpus=1))
    cluster.add(volcano_group("bad", 2), *gang("bad", 2, gpus=1))
    async with cluster.running():
        await cluster.settle(20.0)
        assert cluster.state.kept is not None
        fault.on = True
        cluster.add(volcano_group("bad", 2, annotations={"changed": "yes"}))
        await cluster.settle(1.0)

        assert cluster.state.kept is None


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


# -- every step of the running daemon --------------------------------------------------------------


class Server(ApiInMemory):
    """Binds pods, and gives answers that the client trips over to some requests."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = ""

    async def send(self, request: Request) -> Response:
        if self.broken and request.path.endswith(self.broken):
            raise ZeroDivisionError("a bug")
        if not request.path.endswith("/binding"):
            return await super().send(request)
        if (refusal := self._refusal(request)) is not None:
            return refusal
        assert request.body is not None
        binding = json.loads(request.body)
        self.patch(
            request.path.removesuffix("/binding"),
            {
                "metadata": {"annotations": binding["metadata"].get("annotations") or {}},
                "spec": {"nodeName": binding["target"]["name"]},
                "status": {"phase": "Running"},
            },
        )
        return Response(201, {}, b"{}")

    def put_all(self, kind: Kind[Any], *objects: Any) -> None:
        self.add(*map(msgspec.to_builtins, objects), kind=kind)

    def node_of(self, name: str) -> str:
        return str(self.objects[f"{POD_PATH}/{name}"]["spec"].get("nodeName") or "")


POD_PATH = "/api/v1/namespaces/default/pods"
BAD_SPEC = {"tolerations": [{"key": "bad"}]}
STORAGE = {
    "metadata": {"name": "late", "namespace": ""},
    "provisioner": "x",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CLAIM = {
    "metadata": {"name": "bad", "namespace": "default"},
    "spec": {
        "storageClassName": "late",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
    "status": {"phase": "Pending"},
}
LINE = "/api/v1/namespaces/kube-system/configmaps/muster-line"
LATER = {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
    "weight": 1,
    "podAffinityTerm": {
        "labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"
    },
}]}}}  # fmt: skip
"""Makes a label count that did not before: pods that have it are classified again."""


def room_for_all(server: Server) -> None:
    server.remove(f"{POD_PATH}/first")


def deletion_of_bad(server: Server) -> None:
    mark = {gang_deletion.DELETION_ANNOTATION: "Released/2026-01-01T00:00:00Z"}
    server.patch(f"{POD_PATH}/bad-run-0", {"metadata": {"annotations": mark}})
    room_for_all(server)


def refused_deletion(server: Server) -> None:
    server.forbidden.add("DELETE pods/bad-run-0")
    deletion_of_bad(server)


def refused_bind(server: Server) -> None:
    server.forbidden.add("POST pods/bad-0/binding")
    room_for_all(server)


def new_node(server: Server) -> None:
    server.put_all(NODES, node("bad-node", gpus=6))
    room_for_all(server)


def new_group(server: Server) -> None:
    server.put_all(VOLCANO_POD_GROUPS, volcano_group("bad-new", 1))
    room_for_all(server)


class Place(NamedTuple):
    """A place where an error about `bad` is raised, where it is counted, and how it is reached."""

    where: str
    of: Any
    function: str = ""
    """A function of `of`; else the requests that end with the text `of` raise."""
    happens: Callable[[Server], None] = room_for_all
    also: tuple[tuple[Any, str], ...] = ()


DECIDES = ((gang_decision, "_verdict"),)
PLACES = [
    Place("wake", filters, "copies"),
    Place("place", State, "_place_of"),
    Place("class", PodClasses, "of"),
    Place("node", NodeTable, "_write", new_node),
    Place("recovery", loop, "after_error", also=DECIDES),
    Place("recovery", loop, "apply", also=DECIDES),
    Place("bind", "pods/bad-0/binding"),
    Place("bind", loop, "bind_failed", refused_bind),
    Place("report", Reporter, "missing_right", refused_bind),
    Place("deletion", gang_deletion, "mark_patch", deletion_of_bad),
    Place("deletion", "pods/bad-run-0/status", "", deletion_of_bad),
    Place("deletion", "pods/bad-run-0", "", deletion_of_bad),
    Place("deletion", gang_deletion, "deletion_failed", refused_deletion),
    Place("report", Reporter, "not_deleted", refused_deletion),
    Place("volume", "persistentvolumeclaims/bad"),
    Place("group", "podgroups/bad-new/status", "", new_group),
    Place("line", waiting_line_publisher, "_waiting_gang"),
    Place("line", waiting_line_publisher, "_held_room"),
    Place("line", waiting_line_publisher, "_fitted"),
    Place("report", Reporter, "_report_group"),
]


def raises_about_bad(original: Callable[..., Any], on: list[bool]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        if on and "bad" in repr([getattr(argument, "key", argument) for argument in arguments]):
            raise ZeroDivisionError("a bug")
        return original(*arguments, **options)

    return wrapped


@pytest.mark.parametrize("place", PLACES, ids=lambda row: f"{row.where}-{row.function or row.of}")
async def test_an_error_about_one_gang_in_any_part_of_the_daemon_leaves_the_others_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    on: list[bool] = []
    for module, function in ((place.of, place.function), *place.also):
        if function:
            wrapped = raises_about_bad(getattr(module, function), on)
            monkeypatch.setattr(module, function, wrapped)
    server = Server()
    server.put_all(NODES, node("n1", gpus=6))
    server.put_all(PODS, pod("first", gpus=6, spec={"nodeName": "n1"}))
    for name, created in (("bad", 0.0), ("good", 1.0)):
        server.put_all(VOLCANO_POD_GROUPS, volcano_group(name, 2, created=created))
        spec = BAD_SPEC if name == "bad" else None
        server.put_all(PODS, *gang(name, 2, gpus=1, created=created, spec=spec))
    server.put_all(VOLCANO_POD_GROUPS, volcano_group("bad-run", 2))
    server.put_all(PODS, *gang("bad-run", 2, labels={"app": "y"}, spec={"nodeName": "n1"}))
    server.add(STORAGE, kind=STORAGE_CLASSES)
    server.add(CLAIM, kind=VOLUME_CLAIMS)
    server.put_all(PODS, pod("bad-volume", gpus=1, created=5, spec=using("bad")))
    options = daemon.Options(names=("muster", "volcano"))
    task = asyncio.create_task(daemon.run(Client(server), options))
    await asyncio.sleep(5)  # pace: virtual
    server.patch(f"{POD_PATH}/bad-run-1", {"status": {"phase": "Failed"}})
    await asyncio.sleep(5)  # pace: virtual
    assert '"default/good"' in server.objects[LINE]["data"]["line"]
    before = counted(place.where)
    on.append(True)
    if not place.function:
        server.broken = place.of
    place.happens(server)
    await asyncio.sleep(60)  # pace: virtual
    server.put_all(PODS, pod("later", spec=LATER))
    await asyncio.sleep(60)  # pace: virtual

    assert [server.node_of(name) for name in ("good-0", "good-1", "later")] == ["n1"] * 3
    assert counted(place.where) > before
    assert '"default/good"' not in server.objects[LINE]["data"]["line"]
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
