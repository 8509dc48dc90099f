"""What a pod asks of its node, by Kubernetes' own rule; and which pods are alike."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import muster
from kubekit.objects.core import Pod
from muster.scheduler.cluster.pod_class import PodClasses, host_ports, requests
from muster.scheduler.cluster.snapshot import Snapshot
from tests.muster.scheduler.builders import node, pod
from tests.work import calls_in, growth


def box(cpu: str = "", restart: str | None = None, **more: str) -> dict[str, Any]:
    asked = {**({"cpu": cpu} if cpu else {}), **more}
    return {"name": "c", "resources": {"requests": asked}, "restartPolicy": restart}


def spec(**fields: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": fields}, Pod)


@pytest.mark.parametrize(
    ("fields", "cpu"),
    [
        ({"containers": [box("1"), box("500m")]}, 1500),
        ({"containers": [box("1")], "initContainers": [box("3")]}, 3000),
        ({"containers": [box("4")], "initContainers": [box("3"), box("2")]}, 4000),
        # A sidecar runs beside the containers, and beside the init containers after it.
        ({"containers": [box("1")], "initContainers": [box("2", "Always")]}, 3000),
        ({"containers": [box("1")], "initContainers": [box("2", "Always"), box("5")]}, 7000),
        ({"containers": [box("1")], "initContainers": [box("5"), box("2", "Always")]}, 5000),
        ({"containers": [box("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [box("1")], "resources": {"requests": {"cpu": "3"}}}, 3000),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [box("0.1m")]}, 1),
    ],
)
def test_cpu_is_counted_as_kubernetes_counts_it(fields: dict[str, Any], cpu: int) -> None:
    assert requests(spec(**fields))["cpu"] == cpu


@pytest.mark.parametrize("kind", ["containers", "initContainers", "sidecars"])
def test_thousands_of_resources_in_thousands_of_containers_are_added_one_by_one(kind: str) -> None:
    restart = "Always" if kind == "sidecars" else None
    rows = [box(restart=restart, **{f"x.io/{i}": "1"}) for i in range(2400)]
    needs: Counter[str] = Counter()

    def count(containers: int) -> None:
        field = "initContainers" if kind == "sidecars" else kind
        needs.update(requests(spec(**{field: rows[:containers]})))

    assert growth(count, 300) < 24
    assert needs["x.io/2399"] == 5


def test_resources_that_no_node_has_share_a_column_until_one_has_them() -> None:
    snapshot = Snapshot()
    snapshot.nodes.put(node("a"))
    for i in range(300):
        asked = {"requests": {f"x.io/{i}": "1"}}
        snapshot.put_pod(pod(f"p{i}", spec={"nodeName": "a", "containers": [{"resources": asked}]}))
    snapshot.settle()
    assert snapshot.nodes.free.shape == (len(snapshot.classes.resources), 1)
    assert len(snapshot.classes.resources) < 10

    has = replace(node("a"), status=replace(node("a").status, allocatable={"x.io/7": "3"}))
    snapshot.nodes.put(has)
    snapshot.settle()
    assert snapshot.nodes.free[snapshot.classes.column("x.io/7")].tolist() == [2]
    assert snapshot.nodes.free[snapshot.classes.column("x.io/8")].max() <= 0


def test_a_label_key_that_no_pod_has_classifies_no_pod_again() -> None:
    """Every pod of a stranger may name another one."""
    snapshot = Snapshot()
    snapshot.nodes.put(node("a"))
    for i in range(500):
        snapshot.put_pod(pod(f"p{i}", labels={"app": "x"}, spec={"nodeName": "a"}))
    with calls_in(muster) as calls:
        for i in range(20):
            selector = {"matchLabels": {f"key-{i}": "v"}}
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
            rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            snapshot.classes.of(pod(f"q{i}", spec={"affinity": {"podAntiAffinity": rule}}))
            snapshot.settle()

    assert len(snapshot.classes.interesting) == 20
    assert calls.count < 60_000


def test_a_resized_pod_counts_the_larger_of_its_requests_and_its_allocated_resources() -> None:
    raw = {
        "spec": {"nodeName": "n", "containers": [box("1")]},
        "status": {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"}}]},
    }

    assert requests(msgspec.convert(raw, Pod))["cpu"] == 2000


def test_a_pod_with_an_invalid_quantity_fits_nowhere() -> None:
    assert requests(spec(containers=[box("lots")]))["cpu"] > 10**15


def test_host_ports_are_those_of_containers_and_sidecars() -> None:
    port = {"containerPort": 80, "hostPort": 8080, "hostIP": "0.0.0.0"}
    container = {"name": "a", "ports": [port]}
    side = {"name": "b", "restartPolicy": "Always", "ports": [{"hostPort": 9, "protocol": "UDP"}]}
    ports = host_ports(spec(containers=[container], initContainers=[side]).spec)

    assert [tuple(p) for p in ports] == [("TCP", 8080, ""), ("UDP", 9, "")]


def test_on_the_host_network_every_port_is_a_host_port() -> None:
    container = {"name": "a", "ports": [{"containerPort": 2222}]}

    ports = host_ports(spec(containers=[container], hostNetwork=True).spec)
    assert [port.number for port in ports] == [2222]


def test_replicas_that_differ_by_name_and_index_are_one_class() -> None:
    classes = PodClasses()
    known = {classes.of(pod(f"w-{i}", labels={"index": str(i)})) for i in range(9)}

    assert len(known) == 1


def test_a_label_that_a_selector_names_tells_classes_apart() -> None:
    classes = PodClasses()
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    classes.of(pod("shy", spec={"affinity": anti}))

    first = classes.of(pod("a", labels={"app": "x"}))
    second = classes.of(pod("b", labels={"app": "y"}))

    assert first is not second


@pytest.mark.parametrize(
    "different",
    [{"gpus": 1}, {"cpu": "2"}, {"namespace": "other"}, {"spec": {"nodeSelector": {"a": "b"}}}],
)
def test_pods_with_different_requests_are_different_classes(different: Any) -> None:
    classes = PodClasses()

    assert classes.of(pod("a")) is not classes.of(pod("a", **different))
