"""More pods than addresses: only pods on our nodes get one, and wait when there is none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import localkube
from kubekit.objects.kinds import EVENTS
from kubekit.objects.meta import Key
from kubekit.watch.informer_cache import Change
from localkube.node import pod_loop
from localkube.node.network.bridge import BridgeNetwork
from localkube.node.network.hosts_file import HostsFiles
from localkube.node.network.pod_network import OutOfAddresses
from localkube.node.pod import Pod
from localkube.node.runtime.namespace_runtime import NamespaceRuntime
from localkube.node.runtime.rootfs import RootfsRules
from tests.localkube.node.local_node import LocalNode, needs_namespaces
from tests.localkube.node.pod_builders import make_pod, shell
from tests.waiting import eventually
from tests.work import calls_in

NODES = {"muster-0"}
MANY = 6000


class Pods:
    """Stands in for an informer."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = {pod.metadata.key: pod for pod in pods}
        self.listeners: list[Callable[[Any], None]] = []

    def all(self) -> Any:
        return self.pods.values()

    def subscribe(self, listener: Callable[[Any], None]) -> None:
        self.listeners.append(listener)

    def put(self, pod: Pod) -> None:
        change = Change(self.pods.get(pod.metadata.key), pod)
        self.pods[pod.metadata.key] = pod
        for listener in self.listeners:
            listener(change)

    async def synced(self) -> None:
        return


class Files:
    """The hosts files of a network without processes: addresses, records and files are real."""

    def __init__(self, home: Path, *pods: Pod) -> None:
        self.network = BridgeNetwork(home)
        self.network.choose_subnet([])
        self.runtime = NamespaceRuntime(home, self.network, RootfsRules(home=""), home / "images")
        self.pods = Pods(*pods)
        self.hosts_files = HostsFiles(self.runtime, NODES, self.pods, Pods(), home / "pods")  # type: ignore[arg-type]
        self.saved_by: list[threading.Thread] = []
        save = self.network._save

        def note_thread(table: dict[str, str]) -> None:
            self.saved_by.append(threading.current_thread())
            save(table)

        vars(self.network)["_save"] = note_thread

    def hosts(self, pod: Pod) -> Path:
        return self.runtime.records.pod(pod.metadata.uid) / "hosts"

    def touch(self, pod: Pod) -> Path:
        file = self.hosts(pod)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        return file


def waiting_pods(count: int, **spec: Any) -> Iterator[Pod]:
    return (make_pod(f"waiting-{number}", **spec) for number in range(count))


@pytest.mark.parametrize("node", ["", "not-ours"])
async def test_pods_without_one_of_our_nodes_cost_no_address_and_little_work(
    tmp_path: Path, node: str
) -> None:
    running = make_pod("running")
    files = Files(tmp_path, *waiting_pods(MANY, nodeName=node), running)
    file = files.touch(running)

    changed = list(waiting_pods(MANY, nodeName=node, status={"phase": "Pending"}))

    with calls_in(localkube) as calls:
        task = asyncio.create_task(files.hosts_files.run())
        files.pods.put(make_pod("one-more"))
        for pod in changed:
            files.pods.put(pod)
        await eventually(lambda: "one-more" in file.read_text(), what="the names of both pods")
    task.cancel()

    assert set(files.network.addresses.table()) == {"default/running", "default/one-more"}
    assert files.saved_by
    assert threading.main_thread() not in files.saved_by
    assert calls.count < 30 * 2 * MANY


async def test_all_addresses_of_a_pass_are_saved_at_once_off_the_event_loop(tmp_path: Path) -> None:
    files = Files(tmp_path, *waiting_pods(MANY))
    file = files.touch(next(waiting_pods(1)))

    task = asyncio.create_task(files.hosts_files.run())
    files.pods.put(make_pod("one-more"))
    await eventually(lambda: "waiting-0" in file.read_text(), what="the first pass")
    task.cancel()

    assert len(files.network.addresses.table()) == files.network.addresses.size
    assert len(files.saved_by) == 1
    assert files.saved_by[0] is not threading.main_thread()
    again = Files(tmp_path)
    assert again.network.addresses.table() == files.network.addresses.table()


async def test_finished_pods_free_their_addresses_for_those_that_wait(tmp_path: Path) -> None:
    size = Files(tmp_path).network.addresses.size
    files = Files(tmp_path, *waiting_pods(size))
    late = make_pod("late")
    file = files.touch(late)
    task = asyncio.create_task(files.hosts_files.run())
    files.pods.put(late)
    await eventually(lambda: "waiting-7" in file.read_text(), what="the first pass")
    with pytest.raises(OutOfAddresses, match="starts when another one ends"):
        files.network.allocate(late.metadata.key)
    assert files.network.address(late.metadata.key) == ""

    freed = files.network.address(Key("default", "waiting-7"))
    files.pods.put(make_pod("waiting-7", status={"phase": "Succeeded"}))

    await eventually(lambda: f"{freed}\tlate " in file.read_text(), what="the name of the pod")
    task.cancel()
    assert files.network.allocate(late.metadata.key) == freed


async def test_a_pod_that_still_runs_keeps_its_address_although_the_api_has_lost_it(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path)
    files.runtime._open["uid"] = "default/p"
    files.runtime.assign_addresses([])
    address = files.network.address(Key("default", "p"))

    files.runtime.assign_addresses([Key("ns", str(number)) for number in range(MANY)])
    assert files.network.address(Key("default", "p")) == address != ""

    await files.runtime.close("uid")
    assert files.network.address(Key("default", "p")) == ""
    assert address in files.network.addresses.table().values()


@pytest.mark.slow
@needs_namespaces
async def test_a_pod_waits_with_a_reason_while_the_subnet_is_full(
    local: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_loop, "_ADDRESS_RETRY", 0.1)
    runtime: Any = local.agent and local.agent.runtime
    held = {f"uid-{number}": f"other/{number}" for number in range(MANY)}
    runtime._open |= held

    await local.run(shell("p", "true"), shell("host", "true", hostNetwork=True))
    pod = await local.until("p", lambda p: "OutOfAddresses" in str(p), "p has a reason")
    assert (await local.ended("host"))["exitCode"] == 0

    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "OutOfAddresses"
    assert "pods hold all 4093 addresses" in waiting["message"]
    assert pod["status"]["phase"] == "Pending"

    async def event() -> bool:
        events = await local.client.list(EVENTS, "default")
        return any("pods hold all 4093" in str(event) for event in events.items)

    await eventually(event, what="an event about the pod")

    for uid in held:
        del runtime._open[uid]
    runtime._assign()  # as the end of a pod does
    assert (await local.ended("p"))["exitCode"] == 0
