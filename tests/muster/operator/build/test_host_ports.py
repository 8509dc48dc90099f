"""Replicas on the host's network: each has a port of its own, and all replicas know it."""

from __future__ import annotations

import json

from kubekit.objects.meta import Raw
from muster.operator.decision_types import Settings
from tests.muster.operator.builders import Model, env, manifest, replica


def on_host() -> Raw:
    return manifest(roles={"Worker": replica(2, hostNetwork=True), "PS": replica(1)})


def config(model: Model, pod: str) -> Raw:
    tf_config: Raw = json.loads(env(model.manifests[pod])["TF_CONFIG"])
    return tf_config


def test_each_replica_has_a_port_of_its_own_that_all_others_know() -> None:
    model = Model(on_host())
    model.settle()

    cluster = config(model, "j-ps-0")["cluster"]
    assert config(model, "j-worker-1")["cluster"] == cluster
    ports = [int(address.rpartition(":")[2]) for address in cluster["worker"]]
    assert len(set(ports)) == 2
    assert all(20000 <= port < 30000 for port in ports)
    assert cluster["ps"] == ["j-ps-0.ns.svc:2222"]
    for index, port in enumerate(ports):
        pod = model.manifests[f"j-worker-{index}"]["spec"]
        assert pod["hostNetwork"] is True
        assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"
        (named,) = pod["containers"][0]["ports"]
        assert named == {"name": "tfjob-port", "containerPort": port, "hostPort": port}


def test_pods_are_created_when_the_services_record_their_ports() -> None:
    model = Model(on_host())
    model.step()
    assert len(model.services) == 3
    assert not model.pods

    model.step()
    assert len(model.pods) == 3
    assert model.step() == []


def test_ports_in_use_are_skipped() -> None:
    first = Model(on_host())
    first.settle()
    taken = {row["spec"]["ports"][0]["port"] for row in first.services.values()}

    second = Model(on_host(), ports=frozenset(taken))
    second.settle()

    other = {row["spec"]["ports"][0]["port"] for row in second.services.values()}
    assert not {port for port in taken & other if port != 2222}


def test_a_replacement_keeps_the_port() -> None:
    model = Model(on_host())
    model.settle()
    before = config(model, "j-worker-1")
    model.pod("j-worker-1", phase="Failed", reason="Evicted")
    model.settle()

    assert config(model, "j-worker-1") == before


def test_where_all_pods_share_one_address_all_replicas_use_it() -> None:
    model = Model(manifest(), Settings(address="127.0.0.1"))
    model.settle()

    cluster = config(model, "j-ps-0")["cluster"]
    addresses = [*cluster["worker"], *cluster["ps"]]
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:2") for address in addresses)
