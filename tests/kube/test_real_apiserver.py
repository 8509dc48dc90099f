"""The client, informers and leases against a real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from muster.api.core import Pod
from muster.api.kinds import CONFIG_MAPS, LEASES, NODES, PODS, Kind
from muster.api.meta import Key
from muster.api.pod_groups import VolcanoPodGroup
from muster.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Unauthorized,
    Unreachable,
    UntrustedCertificate,
)
from muster.kube.auth import kube_config
from muster.kube.auth.endpoint import Endpoint
from muster.kube.blocking_client import BlockingClient
from muster.kube.client import Client
from muster.kube.request import PatchType, Request, Response
from muster.kube.transport.http_transport import HttpTransport, WebSocket
from muster.kube.watch.informer import Informer
from muster.kube.watch.informer_cache import Change
from tests.controlplane.certificates import Authority
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.kube.lease_contender import DEADLINE, DURATION
from tests.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

# Of a group that nobody else installs: the control plane is shared by the whole session.
LATE_GROUPS = Kind("late.muster.dev", "v1beta1", "podgroups", "PodGroup", VolcanoPodGroup)
pytestmark = [pytest.mark.kube, pytest.mark.slow]


def pod(name: str, namespace: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "x"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


@asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.synced()
        yield
        task.cancel()


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.connect(kube_config.load(control_plane.kubeconfig)) as connected:
        yield connected


class Ledger:
    """What a listener heard of each pod: numbers written into a label, 'gone' for deletions."""

    def __init__(self) -> None:
        self.heard: dict[str, list[str]] = defaultdict(list)
        self.versions: list[int] = []

    def __call__(self, change: Change[Pod]) -> None:
        name = change.current.metadata.name
        if change.new is None:
            self.heard[name].append("gone")
            return
        self.heard[name].append(change.new.metadata.labels["n"])
        self.versions.append(int(change.new.metadata.resource_version))


PODS_WATCHED = 5000


class Cable:
    """A transport that can be pulled out, so that a test decides what an informer misses."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.plugged = True
        self.lists = 0
        self._inner = HttpTransport(endpoint)

    async def send(self, request: Request) -> Response:
        self._check()
        self.lists += request.method == "GET"
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self._check()
        return self._inner.stream(request)

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        raise NotImplementedError

    async def close(self) -> None:
        await self._inner.close()

    def _check(self) -> None:
        if not self.plugged:
            raise Unreachable("the cable is out")


async def test_an_informer_hears_every_change_once_in_order_across_kills_and_compaction(
    control_plane_binaries: Path,
) -> None:
    # Without the watch cache a restarted server still has the history, so that resuming must not
    # lose a single change; compaction then takes the history away.
    with ControlPlane(control_plane_binaries, watch_cache=False) as plane:
        endpoint = kube_config.load(plane.kubeconfig)
        cable = Cable(endpoint)
        async with Client.connect(endpoint) as writer, Client(cable) as reader:
            names = [f"p{i}" for i in range(PODS_WATCHED)]
            await _many(writer.create(PODS, pod(name, "default", n="0")) for name in names)
            informer, ledger = Informer(reader, PODS), Ledger()
            informer.subscribe(ledger)
            async with running(informer):
                assert len(informer.all()) == PODS_WATCHED
                listed = cable.lists
                await _resumed_after_a_kill(plane, writer, ledger, cable)
                assert cable.lists == listed, "the history was there: no reason to list"
                await _relisted_after_a_kill_and_compaction(plane, writer, ledger, cable)
                assert cable.lists > listed, "the history was gone"
            listing = await writer.list(PODS)
            assert {p.metadata.key: p for p in listing.items} == {
                p.metadata.key: p for p in informer.all()
            }


async def _resumed_after_a_kill(
    plane: ControlPlane, client: Client, ledger: Ledger, cable: Cable
) -> None:
    names = [f"p{i}" for i in range(300)]
    start = len(ledger.versions)
    async with asyncio.TaskGroup() as group:
        group.create_task(_count(client, names, range(1, 5)))
        await eventually(lambda: len(ledger.versions) > start + 300, timeout=60)
        # A server that starts refuses everybody for a moment, and a refusal may cost a list.
        cable.plugged = False
        await asyncio.to_thread(plane.kill_apiserver)
        await asyncio.to_thread(plane.start_apiserver)
        cable.plugged = True
    await eventually(lambda: all(ledger.heard[name][-1] == "4" for name in names), timeout=60)
    for name in names:
        assert ledger.heard[name] == ["0", "1", "2", "3", "4"]
    after = ledger.versions[start:]
    assert after == sorted(after), "changes of all pods together come in the server's order"


async def _relisted_after_a_kill_and_compaction(
    plane: ControlPlane, writer: Client, ledger: Ledger, cable: Cable
) -> None:
    changed = [f"p{i}" for i in range(300)]
    deleted = [f"p{i}" for i in range(300, 400)]
    reborn = [f"p{i}" for i in range(400, 500)]
    untouched = [f"p{i}" for i in range(500, PODS_WATCHED)]
    cable.plugged = False
    await asyncio.to_thread(plane.kill_apiserver)
    await asyncio.to_thread(plane.start_apiserver)
    await _count(writer, changed, range(5, 7))
    await _many(writer.delete(PODS, Key("default", n), grace=0) for n in deleted + reborn)
    await _many(writer.create(PODS, pod(n, "default", n="new")) for n in reborn)
    await asyncio.to_thread(plane.compact)
    with pytest.raises(Gone):
        await anext(writer.watch(PODS, since="1"))
    cable.plugged = True
    await _count(writer, changed, range(7, 8))
    await eventually(lambda: all(ledger.heard[name][-1] == "7" for name in changed), timeout=60)
    # What happened unseen shows as its sum; "6" is heard of pods that reached 7 after the list.
    seen = {tuple(ledger.heard[name]) for name in changed}
    assert seen <= {("0", "1", "2", "3", "4", "6", "7"), ("0", "1", "2", "3", "4", "7")}
    assert {tuple(ledger.heard[name]) for name in deleted} == {("0", "gone")}
    assert {tuple(ledger.heard[name]) for name in reborn} == {("0", "gone", "new")}
    assert {tuple(ledger.heard[name]) for name in untouched} == {("0",)}


async def _count(client: Client, names: list[str], numbers: range) -> None:
    """Write each number into each pod, through whatever trouble there is."""

    async def write(name: str, number: int) -> None:
        while True:
            try:
                await client.patch(
                    PODS, Key("default", name), {"metadata": {"labels": {"n": str(number)}}}
                )
            except (Unreachable, Unauthorized, Forbidden):  # a server that starts knows nobody
                await asyncio.sleep(0.05)  # pace: how often it is tried
            else:
                return

    for number in numbers:
        await _many(write(name, number) for name in names)


async def _many(calls: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)


class Contenders:
    """Processes that want one lease, and the file in which they note when they may act."""

    def __init__(self, kubeconfig: Path, namespace: str, file: Path) -> None:
        self._kubeconfig, self._namespace, self._file = kubeconfig, namespace, file
        self._file.touch()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, identity: str) -> None:
        self.processes[identity] = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.kube.lease_contender"),
                *(str(self._kubeconfig), self._namespace, identity, str(self._file)),
            ]
        )

    def notes(self) -> list[tuple[float, str]]:
        lines = self._file.read_text().rpartition("\n")[0].splitlines()
        return sorted((float(t), who) for t, who in (line.split() for line in lines))

    def leader(self) -> str:
        notes = self.notes()
        return notes[-1][1] if notes else ""

    def signal(self, identity: str, number: signal.Signals) -> None:
        self.processes[identity].send_signal(number)

    def reigns(self) -> list[tuple[str, float, float]]:
        """Who was the leader from when to when; two who act at once show as many short reigns."""
        found: list[tuple[str, float, float]] = []
        for moment, who in self.notes():
            if found and found[-1][0] == who:
                found[-1] = (who, found[-1][1], moment)
            else:
                found.append((who, moment, moment))
        return found


@contextmanager
def contenders(kubeconfig: Path, namespace: str, file: Path) -> Iterator[Contenders]:
    several = Contenders(kubeconfig, namespace, file)
    try:
        yield several
    finally:
        for process in several.processes.values():
            process.kill()
            process.wait()


def test_two_processes_contend_for_a_lease_and_never_both_act(
    control_plane: ControlPlane, fresh_namespace: str, tmp_path: Path
) -> None:
    with contenders(control_plane.kubeconfig, fresh_namespace, tmp_path / "notes") as several:
        several.start("a")
        several.start("b")
        first = until(several.leader, what="a leader")
        second = "b" if first == "a" else "a"
        count = len(several.notes())
        until(lambda: len(several.notes()) > count + 100)
        several.signal(first, signal.SIGKILL)
        until(lambda: several.leader() == second, what="the other leads after a crash")

        several.start("c")
        several.signal(second, signal.SIGSTOP)
        until(lambda: several.leader() == "c", what="the third leads while the second is frozen")
        several.signal(second, signal.SIGCONT)
        count = len(several.notes())
        until(lambda: len(several.notes()) > count + 200, what="the third goes on")

        several.signal("c", signal.SIGTERM)
        assert several.processes["c"].wait(60) == 0
        path = f"/apis/coordination.k8s.io/v1/namespaces/{fresh_namespace}/leases/contended"
        _, lease = control_plane.request("GET", path)
        assert lease["spec"]["holderIdentity"] != "c", "given back on the way out"
        until(lambda: several.leader() == second, what="the second leads again")

    reigns = several.reigns()
    assert {who for who, _, _ in reigns} == {first, second, "c"}
    for (former, _, ended), (_, began, _) in pairwise(reigns):
        # Whoever did not give the lease back must first have been silent for the margin.
        assert former == "c" or began - ended > DURATION - DEADLINE


async def test_paged_lists_and_watches_agree(client: Client, fresh_namespace: str) -> None:
    await _many(
        client.create(CONFIG_MAPS, config_map(f"m{i}", fresh_namespace, n="0")) for i in range(50)
    )
    paged = await client.list(CONFIG_MAPS, fresh_namespace, page=7)
    whole = await client.list(CONFIG_MAPS, fresh_namespace, page=0)
    assert len(paged.items) == 50
    assert paged.items == whole.items
    state = {item.metadata.name: item for item in paged.items}
    for i in range(20):
        await client.patch(CONFIG_MAPS, Key(fresh_namespace, f"m{i}"), {"data": {"n": "1"}})
    for i in range(15, 25):
        await client.delete(CONFIG_MAPS, Key(fresh_namespace, f"m{i}"))
    await client.create(CONFIG_MAPS, config_map("last", fresh_namespace))
    stream = client.watch(CONFIG_MAPS, fresh_namespace, since=paged.resource_version)
    async with aclosing(stream) as events:
        async for event in events:
            if event.type == "DELETED":
                del state[event.object.metadata.name]
            else:
                state[event.object.metadata.name] = event.object
            if event.object.metadata.name == "last":
                break
    now = await client.list(CONFIG_MAPS, fresh_namespace, page=11)
    assert state == {item.metadata.name: item for item in now.items}


async def test_selectors_narrow_lists_and_watches(client: Client, fresh_namespace: str) -> None:
    await client.create(PODS, pod("red", fresh_namespace, colour="red"))
    await client.create(PODS, pod("blue", fresh_namespace, colour="blue"))
    by_label = await client.list(PODS, fresh_namespace, labels="colour in (red, green)")
    by_field = await client.list(PODS, fresh_namespace, fields="metadata.name=blue")
    assert [p.metadata.name for p in by_label.items] == ["red"]
    assert [p.metadata.name for p in by_field.items] == ["blue"]


async def test_a_bind_gives_the_pod_its_node_and_the_annotation(
    control_plane: ControlPlane, client: Client, fresh_namespace: str
) -> None:
    control_plane.add_node("bind-target")
    try:
        made = await client.create(PODS, pod("x", fresh_namespace))
        with pytest.raises(Conflict):
            await client.bind(made.metadata.key, uid="another", node="bind-target")
        await client.bind(
            made.metadata.key,
            uid=made.metadata.uid,
            node="bind-target",
            annotations={"muster.dev/plan": "p/1"},
        )
        bound = await client.get(PODS, made.metadata.key)
        assert bound.spec.node_name == "bind-target"
        assert bound.metadata.annotations == {"muster.dev/plan": "p/1"}
    finally:
        await client.delete(NODES, Key("", "bind-target"))


async def test_every_way_to_change_an_object(client: Client, fresh_namespace: str) -> None:
    key = Key(fresh_namespace, "m")
    raw: Kind[dict[str, Any]] = CONFIG_MAPS.read_as(dict)
    made = await client.create(raw, config_map("m", fresh_namespace, a="1"))
    merged = await client.patch(CONFIG_MAPS, key, {"data": {"b": "2", "a": None}})
    assert merged.data == {"b": "2"}
    steps = [{"op": "add", "path": "/data/c", "value": "3"}]
    assert (await client.patch(CONFIG_MAPS, key, steps, patch_type=PatchType.JSON)).data == {
        "b": "2",
        "c": "3",
    }
    strategic = await client.patch(
        CONFIG_MAPS, key, {"data": {"$patch": "replace", "d": "4"}}, patch_type=PatchType.STRATEGIC
    )
    assert strategic.data == {"d": "4"}
    with pytest.raises(Conflict):
        await client.replace(raw, made)  # its version is an old one
    current = await client.get(raw, key)
    current["data"] = {"e": "5"}
    assert (await client.replace(raw, current))["data"] == {"e": "5"}
    with pytest.raises(AlreadyExists):
        await client.create(raw, config_map("m", fresh_namespace))


async def test_apply_owns_fields_and_yields_only_by_force(
    client: Client, fresh_namespace: str
) -> None:
    await client.apply(CONFIG_MAPS, config_map("m", fresh_namespace, a="1"), owner="one")
    with pytest.raises(Conflict) as refused:
        await client.apply(CONFIG_MAPS, config_map("m", fresh_namespace, a="2"), owner="two")
    assert refused.value.causes
    forced = await client.apply(
        CONFIG_MAPS, config_map("m", fresh_namespace, a="2"), owner="two", force=True
    )
    assert forced.data == {"a": "2"}
    status = {
        "metadata": {"name": "p", "namespace": fresh_namespace},
        "status": {"message": "hello"},
    }
    await client.create(PODS, pod("p", fresh_namespace))
    applied = await client.apply(PODS, status, owner="one", subresource="status")
    assert applied.status.message == "hello"


async def test_deletes_can_name_the_incarnation(client: Client, fresh_namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, config_map("m", fresh_namespace))
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, made.metadata.key, uid="another")
    await client.delete(CONFIG_MAPS, made.metadata.key, uid=made.metadata.uid)
    with pytest.raises(NotFound, match=r'configmaps "m" not found'):
        await client.get(CONFIG_MAPS, made.metadata.key)
    await _many(client.create(PODS, pod(f"p{i}", fresh_namespace, x="y")) for i in range(3))
    await client.delete_collection(PODS, fresh_namespace, labels="x=y")
    assert (await client.list(PODS, fresh_namespace)).items == []


async def test_an_invalid_object_is_told_field_by_field(
    client: Client, fresh_namespace: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(PODS, {"metadata": {"name": "p", "namespace": fresh_namespace}})
    assert "spec.containers" in dict(refused.value.causes)


async def test_a_refusal_names_verb_and_resource(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    stranger = kubeconfig(
        control_plane.url,
        control_plane.authority.certificate,
        client=control_plane.authority.client("stranger", "nobodies"),
    )
    async with Client.connect(_endpoint(stranger, tmp_path)) as client:
        with pytest.raises(Forbidden) as refused:
            await client.list(PODS, "default")
        assert str(refused.value).startswith("not allowed to list pods in namespace default: ")
        with pytest.raises(Forbidden, match=r"not allowed to create leases\.coordination\.k8s\.io"):
            await client.create(LEASES, {"metadata": {"name": "x", "namespace": "default"}})
        with pytest.raises(Forbidden, match="not allowed to watch nodes"):
            async for _ in client.watch(NODES, since="1"):
                pass
        with pytest.raises(Forbidden, match="not allowed to create pods/binding x"):
            await client.bind(Key("default", "x"), uid="u", node="n")


async def test_a_wrong_token_is_said_to_be_wrong(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    endpoint = _endpoint(
        kubeconfig(control_plane.url, control_plane.authority.certificate, token="wrong"), tmp_path
    )
    async with Client.connect(endpoint) as client:
        with pytest.raises(Unauthorized, match="refused to get nodes x"):
            await client.get(NODES, Key("", "x"))
    with (
        BlockingClient(endpoint) as blocking,
        pytest.raises(Unauthorized, match="refused to get nodes x"),
    ):
        blocking.get(NODES, Key("", "x"))


async def test_a_certificate_that_has_run_out_is_the_reason_given(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    old = control_plane.authority.client("old", lifetime=-timedelta(hours=1))
    endpoint = _endpoint(
        kubeconfig(control_plane.url, control_plane.authority.certificate, client=old), tmp_path
    )
    why = r"the client certificate of context \S+ expired on 20\d\d-"
    async with Client.connect(endpoint) as client:
        with pytest.raises(Unauthorized, match=why):
            await client.list(NODES)
        with pytest.raises(Unauthorized, match=why):
            async for _ in client.watch(NODES, since="1"):
                pass
    with BlockingClient(endpoint) as blocking, pytest.raises(Unauthorized, match=why):
        blocking.list(NODES)


async def test_a_server_signed_by_a_stranger_is_not_trusted(
    control_plane: ControlPlane,
) -> None:
    endpoint = Endpoint.with_token(
        control_plane.url, control_plane.token, ca=Authority().certificate
    )
    async with Client.connect(endpoint) as client:
        with pytest.raises(UntrustedCertificate, match=r"is not trusted: .*certificate"):
            await client.list(NODES)
    with (
        BlockingClient(endpoint) as blocking,
        pytest.raises(UntrustedCertificate, match=r"is not trusted: .*certificate"),
    ):
        blocking.list(NODES)


async def test_an_informer_of_a_kind_not_yet_installed_finds_it(
    control_plane: ControlPlane, client: Client, fresh_namespace: str
) -> None:
    name = f"{LATE_GROUPS.plural}.{LATE_GROUPS.group}"
    informer = Informer(client, LATE_GROUPS, fresh_namespace)
    async with running(informer):
        assert not informer.installed
        made = control_plane.kubectl("create", "-f", "-", input=json.dumps(_definition(name)))
        assert made.returncode == 0, made.stderr
        try:
            await eventually(lambda: informer.installed, timeout=20)
            group = {
                "metadata": {"name": "g", "namespace": fresh_namespace},
                "spec": {"minMember": 3},
            }
            await client.create(LATE_GROUPS, group)
            found = await eventually(lambda: informer.get(Key(fresh_namespace, "g")))
            assert found is not None
            assert found.spec.min_member == 3
        finally:
            control_plane.kubectl("delete", "crd", name)
        await eventually(lambda: not informer.all(), timeout=30)


def test_quick_verbs_speak_the_same_language(
    control_plane: ControlPlane, fresh_namespace: str
) -> None:
    with BlockingClient(kube_config.load(control_plane.kubeconfig)) as client:
        made = client.create(CONFIG_MAPS, config_map("m", fresh_namespace, a="1"))
        assert client.get(CONFIG_MAPS, made.metadata.key) == made
        since = client.list(CONFIG_MAPS, fresh_namespace, page=1).resource_version
        assert client.patch(CONFIG_MAPS, made.metadata.key, {"data": {"a": "2"}}).data == {"a": "2"}
        client.delete(CONFIG_MAPS, made.metadata.key)
        seen = []
        for event in client.watch(CONFIG_MAPS, fresh_namespace, since=since):
            seen.append(event.type)
            if event.type == "DELETED":
                break
        assert seen == ["MODIFIED", "DELETED"]
        with pytest.raises(NotFound):
            client.get(CONFIG_MAPS, made.metadata.key)


def _endpoint(kubeconfig: dict[str, Any], folder: Path) -> Endpoint:
    file = folder / "kubeconfig"
    file.write_text(json.dumps(kubeconfig))
    return kube_config.load(file)


def _definition(name: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": LATE_GROUPS.group,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
            "versions": [
                {
                    "name": LATE_GROUPS.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
