"""Models of pods become ConfigMaps, newest version first, and go when their files are gone."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy
import pytest

from kubekit.client.client import Client
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key
from kubekit.watch.informer_cache import Change
from localkube.node.pod import HostPath, MissingReference, Pod
from localkube.node.volumes import PodFolders, VolumeDirectories, locate
from muster.contract.exported_models import DATA_KEY, MODEL, MODEL_DIR
from muster.models import model_versions
from muster.models.model_versions import Folder
from muster.models.watcher import ModelWatcher
from tests.api_in_memory import ApiInMemory
from tests.localkube.node.pod_builders import container, make_pod

JOB = {
    "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "job-1",
    "controller": True,
}  # fmt: skip
KEY = Key("default", "model-tfjob-j")


class Claims:
    """The reader of claims: the directory of each."""

    def __init__(self) -> None:
        self.paths: dict[str, HostPath] = {}

    async def claims(self, pod: Pod) -> dict[str, HostPath]:
        return self.paths


class Events:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def record_once_per_owner(self, pod: Pod, reason: str, message: str, *, warning: bool) -> None:
        self.messages.append(message)


class Node:
    """The watcher of a node, one round at a time."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # Every file counts as settled, unless two looks differ.
        monkeypatch.setattr(model_versions, "SETTLED", 0)
        self.top, self.api, self.events = top, ApiInMemory(slow=0), Events()
        self.claims = Claims()
        self.models = top / "volume"
        self.models.mkdir(exist_ok=True)
        self.watcher = self.start()

    _changed: Callable[[Change[Pod]], None]

    def start(self) -> ModelWatcher:
        volumes = VolumeDirectories(self.top, [str(self.top / "hidden")])
        claims: Any = self.claims
        events: Any = self.events
        file = self.top / "models.json"
        pods: Any = SimpleNamespace(subscribe=lambda callback: setattr(self, "_changed", callback))
        self.folders = PodFolders(frozenset(["muster-0"]), pods, claims, volumes, events)
        self.watcher = ModelWatcher(Client(self.api), self.folders, file)
        self.watcher._load()
        return self.watcher

    def pod(self, name: str = "p", directory: str = "/models/m", **fields: Any) -> Pod:
        mount = {"name": "v", "mountPath": "/models"}
        volume = {"name": "v", "hostPath": {"path": str(self.models)}}
        meta = {"annotations": {MODEL_DIR: directory}, "ownerReferences": [fields.pop("job", JOB)]}
        spec = {"volumes": [volume]} | fields
        return make_pod(name, container(volumeMounts=[mount]), meta=meta, **spec)

    def change(self, old: Pod | None, new: Pod | None) -> None:
        self._changed(Change(old, new))

    async def round(self) -> list[str]:
        await self.watcher._round(check_ended=True)
        return self.versions()

    def config_map(self, key: Key = KEY) -> Any:
        return self.api.objects[CONFIG_MAPS.path(key.namespace, key.name)]

    def model(self, key: Key = KEY) -> Any:
        return json.loads(self.config_map(key)["data"][DATA_KEY])

    def versions(self, key: Key = KEY) -> list[str]:
        if key.name not in self.api.named("configmaps"):
            return []
        return [row["version"] for row in self.model(key)["versions"]]

    def export(self, number: int, model: str = "m") -> Path:
        folder = self.models / model / str(number)
        folder.mkdir(parents=True)
        numpy.savez(folder / "model.npz", w=numpy.zeros(2))
        return folder


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def ended(pod: Pod) -> Pod:
    status = msgspec.structs.replace(pod.status, phase="Succeeded")
    return msgspec.structs.replace(pod, status=status)


async def test_versions_are_published_as_they_appear_newest_first(node: Node) -> None:
    pod = node.pod()
    node.change(None, pod)
    assert await node.round() == []

    node.export(9)
    assert await node.round() == ["9"]
    node.export(10)
    assert await node.round() == ["10", "9"]
    assert node.config_map()["metadata"]["labels"] == {MODEL: "j"}

    version = node.api.version
    assert await node.round() == ["10", "9"]
    assert node.api.version == version


async def test_a_list_that_lacks_versions_says_so(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_versions, "MAX_VERSIONS", 2)
    monkeypatch.setattr(model_versions, "MAX_ENTRIES", 3)
    for number in range(3):
        node.export(number)
    node.change(None, node.pod())
    assert await node.round() == ["2", "1"]
    assert (node.model()["omitted"], node.model()["truncated"]) == (1, False)

    (node.models / "m" / "another").touch()

    await node.round()
    assert node.model()["truncated"]


async def test_the_last_look_is_after_the_end_of_the_pod(node: Node) -> None:
    pod = node.pod()
    node.change(None, pod)
    await node.round()
    node.export(1)
    node.change(pod, ended(pod))
    assert await node.round() == ["1"]

    node.export(2)
    assert await node.round() == ["1"]
    node.change(ended(pod), None)
    assert await node.round() == ["1"]


async def test_a_pod_that_ended_between_two_rounds_is_not_missed(node: Node) -> None:
    node.export(1)
    node.change(None, node.pod())
    node.change(node.pod(), ended(node.pod()))

    assert await node.round() == ["1"]


async def test_the_config_map_goes_with_the_last_version(node: Node) -> None:
    folder = node.export(1)
    node.change(None, ended(node.pod()))
    assert await node.round() == ["1"]

    shutil.rmtree(folder)
    await node.round()
    assert node.api.objects == {}
    assert node.watcher._models == {}


async def test_a_restarted_node_knows_its_models(node: Node) -> None:
    folder = node.export(1)
    node.change(None, ended(node.pod()))
    await node.round()

    node.start()
    assert await node.round() == ["1"]
    shutil.rmtree(folder)
    node.start()
    await node.round()
    assert node.api.objects == {}


async def test_a_second_job_in_the_same_directory_lists_only_its_own_versions(node: Node) -> None:
    node.export(1)
    node.change(None, ended(node.pod()))
    await node.round()

    node.change(None, node.pod("q", job={**JOB, "name": "other", "uid": "job-2"}))
    node.export(2)
    await node.round()
    assert node.versions() == ["1"]
    assert node.versions(Key("default", "model-tfjob-other")) == ["2"]


async def test_a_claim_leads_to_its_directory(node: Node) -> None:
    node.claims.paths["c"] = HostPath(str(node.models))
    node.export(1)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    node.change(None, node.pod(volumes=[volume]))

    assert await node.round() == ["1"]


async def test_pods_without_the_annotation_and_of_other_nodes_cost_nothing(node: Node) -> None:
    node.change(None, make_pod("plain"))
    node.change(None, node.pod(nodeName="elsewhere"))

    assert node.watcher._new == {}


async def test_a_directory_in_no_volume_is_an_event(node: Node) -> None:
    node.change(None, node.pod(directory="/elsewhere"))
    await node.round()

    assert node.events.messages == [
        "muster.dev/model-dir: /elsewhere is not in a volume of the pod"
    ]
    assert node.watcher._new == {}


@pytest.mark.parametrize("directory", ["models", "/models/../hidden", "/x"])
def test_a_directory_outside_of_volumes_has_no_place(node: Node, directory: str) -> None:
    with pytest.raises(MissingReference):
        locate(node.pod(), directory, VolumeDirectories(node.top), {})


def test_a_hidden_directory_within_a_volume_is_not_read(node: Node) -> None:
    volumes = VolumeDirectories(node.top, [str(node.top / "hidden")])
    host = {"name": "v", "hostPath": {"path": str(node.top)}}
    (node.top / "link").symlink_to(node.top / "hidden")

    for directory in ("/models/hidden", "/models/hidden/m", "/models/link"):
        with pytest.raises(MissingReference, match="hidden"):
            locate(node.pod(volumes=[host]), directory, volumes, {})


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), RuntimeError("Corrupt input")])
async def test_a_file_that_breaks_its_reader_affects_no_other_job(
    node: Node, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def read(directory: int, folder: Folder, *rest: Any) -> None:
        if folder.version == "666":
            raise error
        original(directory, folder, *rest)

    original = model_versions._read
    monkeypatch.setattr(model_versions, "_read", read)
    node.export(666, "bad")
    node.export(1)
    node.change(None, node.pod("bad", "/models/bad", job={**JOB, "name": "bad", "uid": "bad"}))
    node.change(None, node.pod())

    assert await node.round() == ["1"]


async def test_a_directory_that_costs_much_does_not_delay_the_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*place: Any) -> model_versions.Look:
        if place[1] == "bad":
            looks.append(1)
            started = time.thread_time()
            while time.thread_time() - started < 0.05:
                pass
        return original(*place)

    looks: list[int] = []
    original = model_versions.look
    monkeypatch.setattr(model_versions, "look", slow)
    node.change(None, node.pod("bad", "/models/bad", job={**JOB, "name": "bad", "uid": "bad"}))
    node.change(None, node.pod())
    work = await node.watcher._round(check_ended=False)
    node.export(1)

    assert await node.round() == ["1"]
    assert looks == [1]
    assert work < 0.05


async def test_a_loop_of_links_is_an_event(node: Node) -> None:
    (node.models / "loop").symlink_to("loop")
    node.change(None, node.pod(directory="/models/loop"))
    await node.round()

    assert node.watcher._new == {}
    assert len(node.events.messages) <= 1


async def test_models_in_an_empty_dir_are_listed_while_it_is_there(node: Node) -> None:
    pod = node.pod(volumes=[{"name": "v", "emptyDir": {}}])
    volumes = VolumeDirectories(node.top, [str(node.top)])
    node.watcher._folders = replace(node.folders, volumes=volumes)
    node.models = node.top / "pods" / pod.metadata.uid / "volumes" / "v"
    node.export(1)
    node.change(None, pod)

    assert await node.round() == ["1"]
    assert node.events.messages == []
    shutil.rmtree(node.top / "pods" / pod.metadata.uid)
    node.change(pod, None)
    await node.round()
    await node.round()
    assert node.api.objects == {}


async def test_a_link_to_a_hidden_directory_that_comes_later_shows_nothing(node: Node) -> None:
    node.models = node.top
    (node.top / "m").mkdir()
    node.change(None, node.pod())
    assert await node.round() == []

    node.export(1, "hidden/secret")
    (node.top / "m").rmdir()
    (node.top / "m").symlink_to("hidden/secret")
    assert await node.round() == []
    assert await node.round() == []
