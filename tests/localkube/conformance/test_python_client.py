"""The official Python client on this server: list, watch, create, patch, delete, log, exec."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

from muster.contract import crds
from tests.builders import pod
from tests.localkube.apiserver.fake_node import FakeNode
from tests.localkube.conformance.conftest import InThread
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

kubernetes: Any = importlib.import_module("kubernetes")  # generated types say too little


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with InThread(tmp_path_factory.mktemp("client"), FakeNode()) as host:
        client = kubernetes.config.new_client_from_config(str(host.kubeconfig))
        yield client
        client.rest_client.pool_manager.clear()
        client.close()


@pytest.fixture
def core(api: Any) -> Any:
    return kubernetes.client.CoreV1Api(api)


def test_the_client_creates_reads_patches_lists_and_deletes(core: Any) -> None:
    created = core.create_namespaced_pod("default", pod("a"))
    core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"x": "y"}}})
    listed = core.list_namespaced_pod("default", label_selector="x=y", limit=5)
    core.delete_namespaced_pod("a", "default")

    assert [p.metadata.uid for p in listed.items] == [created.metadata.uid]
    assert created.metadata.creation_timestamp.tzinfo is not None
    with pytest.raises(kubernetes.client.ApiException) as missing:
        core.read_namespaced_pod("a", "default")
    assert missing.value.status == 404


def test_typed_objects_are_written_and_read(core: Any) -> None:
    kinds = kubernetes.client
    wanted = kinds.V1ConfigMap(metadata=kinds.V1ObjectMeta(name="typed"), data={"k": "v"})

    assert core.create_namespaced_config_map("default", wanted).data == {"k": "v"}
    wanted.data["k"] = "w"
    assert core.replace_namespaced_config_map("typed", "default", wanted).data == {"k": "w"}


def test_a_watch_sees_what_happens_after_the_list(core: Any) -> None:
    version = core.list_namespaced_config_map("default").metadata.resource_version
    watch = kubernetes.watch.Watch()
    names = ["w0", "w1", "w2"]

    def write() -> None:
        for name in names:
            core.create_namespaced_config_map("default", {"metadata": {"name": name}})

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    for event in watch.stream(
        core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=20
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == len(names):
            watch.stop()
    writer.join()

    assert seen == [("ADDED", name) for name in names]


def test_custom_objects_are_written_and_read(api: Any) -> None:
    definitions = kubernetes.client.ApiextensionsV1Api(api)
    crd = next(c for c in crds.load_all() if c["metadata"]["name"] == "tfjobs.kubeflow.org")
    definitions.create_custom_resource_definition(crd)
    jobs = kubernetes.client.CustomObjectsApi(api)
    place = ("kubeflow.org", "v1", "default", "tfjobs")
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "j"}, "spec": {}}
    jobs.create_namespaced_custom_object(*place, job)
    status = {"status": {"conditions": [{"type": "Created", "status": "True"}]}}
    jobs.patch_namespaced_custom_object_status(*place, "j", status)

    listed = jobs.list_namespaced_custom_object(*place)["items"]

    assert [(j["metadata"]["name"], j["status"]) for j in listed] == [("j", status["status"])]


def test_logs_and_exec(core: Any) -> None:
    core.create_namespaced_pod("default", pod("b", nodeName="n"))
    run = kubernetes.stream.stream

    log = core.read_namespaced_pod_log("b", "default")
    session = run(
        core.connect_get_namespaced_pod_exec,
        "b",
        "default",
        command=["exit", "3"],
        stderr=True,
        stdout=True,
        _preload_content=False,
    )
    session.run_forever(timeout=20)
    session.sock.shutdown()  # its own close leaves open what the server closed first

    assert log == "one\ntwo\n"
    assert (session.read_stderr(), session.returncode) == ("bye\n", 3)


def test_port_forward(core: Any) -> None:
    core.create_namespaced_pod("default", pod("forwarded", nodeName="n"))
    forward = kubernetes.stream.portforward(
        core.connect_get_namespaced_pod_portforward, "forwarded", "default", ports="80,1"
    )

    connection = forward.socket(80)
    connection.sendall(b"hello")
    received = connection.recv(100)
    error = until(lambda: forward.error(1), what="the error of port 1")
    connection.close()
    forward.socket(1).close()

    assert received == b"HELLO"
    assert "error forwarding port 1" in error
