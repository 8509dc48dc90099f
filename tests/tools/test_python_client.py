"""The official Python client with real pods: informers, leader election, apply, streams."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.objects import POD
from tests.waiting import until

# The client leaves the sockets of streams and locks to the garbage collector.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
kubernetes: Any = importlib.import_module("kubernetes")  # generated types say too little
informers: Any = importlib.import_module("kubernetes.informer")
election: Any = importlib.import_module("kubernetes.leaderelection.leaderelection")
election_config: Any = importlib.import_module("kubernetes.leaderelection.electionconfig")
locks: Any = importlib.import_module("kubernetes.leaderelection.resourcelock.leaselock")
NAMESPACE = "python-client"


@pytest.fixture(scope="module")
def core(kubeconfig: Path) -> Iterator[Any]:
    kubernetes.config.load_kube_config(str(kubeconfig))  # locks use the default configuration
    core = kubernetes.client.CoreV1Api()
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    yield core
    core.delete_namespace(NAMESPACE)
    core.api_client.rest_client.pool_manager.clear()
    core.api_client.close()
    gc.collect()


@pytest.fixture(scope="module")
def server(core: Any) -> str:
    """The name of a pod with a web server."""
    core.create_namespaced_pod(NAMESPACE, POD)

    def ready() -> bool:
        conditions = core.read_namespaced_pod("page", NAMESPACE).status.conditions or []
        return any(c.type == "Ready" and c.status == "True" for c in conditions)

    until(ready, timeout=60, what="the pod being ready")
    return "page"


def test_an_informer_follows_changes_and_lists_again(core: Any) -> None:
    seen: list[tuple[str, str]] = []
    informer = informers.SharedInformer(
        core.list_namespaced_config_map,
        namespace=NAMESPACE,
        label_selector="followed=yes",
        resync_period=1,
    )
    for event in ("ADDED", "MODIFIED", "DELETED", "ERROR"):
        informer.add_event_handler(
            event, lambda obj, event=event: seen.append((event, obj.metadata.name))
        )
    marked = {"labels": {"followed": "yes"}}
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "before", **marked}})
    informer.start()
    until(lambda: ("ADDED", "before") in seen, what="the object that existed before")
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "after", **marked}})
    until(lambda: ("ADDED", "after") in seen, what="the new object")
    core.patch_namespaced_config_map("after", NAMESPACE, {"metadata": {"labels": {"x": "y"}}})
    until(lambda: ("MODIFIED", "after") in seen, what="the changed object")
    core.patch_namespaced_config_map(
        "after", NAMESPACE, {"metadata": {"labels": {"followed": "no"}}}
    )
    until(lambda: ("DELETED", "after") in seen, what="the object that left the selection")
    until(lambda: ("MODIFIED", "before") in seen, what="a second list")
    cached = [item.metadata.name for item in informer.cache.list()]
    core.delete_namespaced_config_map("before", NAMESPACE)  # ends the watch, so that stop() ends
    informer.stop()

    assert cached == ["before"]
    assert [name for event, name in seen if event == "ERROR"] == []


def test_a_second_candidate_leads_after_the_first_has_stopped(core: Any) -> None:
    def candidate(name: str) -> Any:
        def lead() -> None:
            led.append(name)
            raise InterruptedError(f"{name} resigns")

        lock = locks.LeaseLock("leader", NAMESPACE, name)
        return election_config.Config(lock, 3, 2, 1, lead, lambda: led.append(f"{name} stopped"))

    led: list[str] = []
    election.LeaderElection(candidate("first")).run()
    election.LeaderElection(candidate("second")).run()

    assert led == ["first", "first stopped", "second", "second stopped"]
    lease = kubernetes.client.CoordinationV1Api().read_namespaced_lease("leader", NAMESPACE)
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("second", 3)


def test_the_dynamic_client_applies_and_meets_conflicts(core: Any) -> None:
    dynamic = kubernetes.dynamic.DynamicClient(core.api_client)
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")

    def apply(value: str, manager: str, **more: Any) -> Any:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "applied", "namespace": NAMESPACE},
            "data": {"k": value},
        }
        return maps.server_side_apply(body, field_manager=manager, **more)

    apply("one", "first")
    with pytest.raises(kubernetes.dynamic.exceptions.ConflictError) as conflict:
        apply("two", "second")
    forced = apply("two", "second", force_conflicts=True)
    resource = dynamic.resources.get(api_version="kubeflow.org/v1", kind="TFJob")

    assert 'conflict with \\"first\\": .data.k' in conflict.value.body
    assert forced.data.k == "two"
    assert [entry.manager for entry in forced.metadata.managedFields] == ["second"]
    assert resource.namespaced


def test_commands_in_a_pod_have_streams_and_an_exit_code(core: Any, server: str) -> None:
    session = kubernetes.stream.stream(
        core.connect_get_namespaced_pod_exec,
        server,
        NAMESPACE,
        command=["sh", "-c", "read line; echo got $line; echo oops >&2; exit 4"],
        stdin=True,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    session.write_stdin("this\n")
    session.run_forever(timeout=20)
    session.sock.shutdown()  # its own close leaves open what the server closed first

    assert (session.read_stdout(), session.read_stderr()) == ("got this\n", "oops\n")
    assert session.returncode == 4


def test_a_forwarded_port_serves_pages(core: Any, server: str) -> None:
    forward = kubernetes.stream.portforward(
        core.connect_get_namespaced_pod_portforward, server, NAMESPACE, ports="8000"
    )
    connection = forward.socket(8000)
    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
    answer = b""
    while piece := connection.recv(4096):
        answer += piece
    connection.close()

    assert answer.startswith(b"HTTP/1.0 200 OK")
    assert b"Directory listing" in answer
    assert forward.error(8000) is None


def test_logs_are_followed_with_a_watch(core: Any, server: str) -> None:
    lines = kubernetes.watch.Watch().stream(
        core.read_namespaced_pod_log, server, NAMESPACE, container="main", follow=True
    )

    assert next(line for line in lines if "started" in line) == "started"
