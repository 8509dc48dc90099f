"""TF_CONFIG, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubekit.objects.meta import Raw
from muster.operator.decision_types import Settings
from tests.muster.operator.builders import Model, env, manifest, replica

FULL = {"Chief": replica(1), "PS": replica(1), "Worker": replica(2)}


def tf_config(raw: Raw, pod: str, settings: Settings | None = None) -> str | None:
    model = Model(raw, settings)
    model.settle()
    return env(model.manifests[pod]).get("TF_CONFIG")


def test_the_tf_config_of_a_worker_lists_all_replicas() -> None:
    assert tf_config(manifest(roles=FULL), "j-worker-1") == (
        '{"cluster":{"chief":["j-chief-0.ns.svc:2222"],"ps":["j-ps-0.ns.svc:2222"],'
        '"worker":["j-worker-0.ns.svc:2222","j-worker-1.ns.svc:2222"]},'
        '"task":{"type":"worker","index":1},"environment":"cloud"}'
    )


def test_the_tf_config_of_a_master_names_it_master() -> None:
    roles = {"MASTER": replica(1), "ps": replica(1)}
    assert tf_config(manifest(roles=roles), "j-master-0") == (
        '{"cluster":{"master":["j-master-0.ns.svc:2222"],"ps":["j-ps-0.ns.svc:2222"]},'
        '"task":{"type":"master","index":0},"environment":"cloud"}'
    )


def test_the_cluster_domain_of_the_operator_is_appended() -> None:
    value = tf_config(manifest(), "j-ps-0", Settings(domain="cluster.local"))
    assert value is not None
    assert '"ps":["j-ps-0.ns.svc.cluster.local:2222"]' in value


def test_each_role_has_the_port_named_in_its_template() -> None:
    worker = replica(1)
    ports = [{"name": "http", "containerPort": 80}, {"name": "tfjob-port", "containerPort": 22222}]
    worker["template"]["spec"]["containers"][0]["ports"] = ports
    model = Model(manifest(roles={"Worker": worker, "PS": replica(1)}))
    model.settle()

    assert '"worker":["j-worker-0.ns.svc:22222"]' in env(model.manifests["j-ps-0"])["TF_CONFIG"]
    assert '"ps":["j-ps-0.ns.svc:2222"]' in env(model.manifests["j-worker-0"])["TF_CONFIG"]
    named = {p["name"]: p["port"] for p in model.services["j-worker-0"]["spec"]["ports"]}
    assert named == {"tfjob-port": 22222, "http": 80}


def test_a_single_replica_gets_no_tf_config() -> None:
    assert tf_config(manifest(roles={"Worker": replica(1)}), "j-worker-0") is None


@pytest.mark.parametrize(("annotation", "inside"), [(None, True), ("true", True), ("false", False)])
def test_the_evaluator_is_in_the_cluster_unless_the_job_says_no(
    annotation: str | None, inside: bool
) -> None:
    raw = manifest(roles={**FULL, "Evaluator": replica(1)})
    if annotation:
        raw["metadata"]["annotations"] = {"muster.dev/evaluator-in-cluster": annotation}

    value = tf_config(raw, "j-evaluator-0") or ""

    assert ('"evaluator":["j-evaluator-0.ns.svc:2222"]' in value) is inside
    assert '"task":{"type":"evaluator","index":0}' in value


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (
            "j-worker-1",
            '{"cluster":{"worker":{"1":"j-worker-1.ns.svc:2222"},"ps":["j-ps-0.ns.svc:2222"]},'
            '"task":{"type":"worker","index":1}}',
        ),
        (
            "j-ps-0",
            '{"cluster":{"worker":{},"ps":["j-ps-0.ns.svc:2222"]},"task":{"type":"ps","index":0}}',
        ),
        ("j-chief-0", '{"cluster":{"worker":{},"ps":[]},"task":{"type":"chief","index":0}}'),
    ],
)
def test_dynamic_workers_know_only_the_peers_they_connect_to(pod: str, expected: str) -> None:
    assert tf_config(manifest(roles=FULL, enableDynamicWorker=True), pod) == expected


def test_dynamic_workers_without_parameter_servers_get_null() -> None:
    raw = manifest(roles={"Worker": replica(2)}, enableDynamicWorker=True)
    assert tf_config(raw, "j-worker-0") == (
        '{"cluster":{"worker":{"0":"j-worker-0.ns.svc:2222"},"ps":null},'
        '"task":{"type":"worker","index":0}}'
    )


def test_tf_config_comes_last_and_only_in_the_container_that_trains() -> None:
    worker: dict[str, Any] = replica(2)
    worker["template"]["spec"]["containers"] = [
        {"name": "sidecar", "image": "i", "env": [{"name": "A", "value": "1"}]},
        {"name": "tensorflow", "image": "i", "env": [{"name": "TF_CONFIG", "value": "mine"}]},
    ]
    model = Model(manifest(roles={"Worker": worker}))
    model.settle()

    sidecar, main = model.manifests["j-worker-0"]["spec"]["containers"]

    assert sidecar["env"] == [{"name": "A", "value": "1"}]
    assert [row["name"] for row in main["env"]] == ["TF_CONFIG", "TF_CONFIG"]
    assert main["env"][-1]["value"].startswith('{"cluster"')
    original = worker["template"]["spec"]["containers"][1]["env"]
    assert original == [{"name": "TF_CONFIG", "value": "mine"}]


def test_the_addresses_of_all_workers_are_encoded_once_per_decision_not_once_per_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Model(manifest(roles={"Worker": replica(200)}))
    written: list[int] = []
    dumps = json.dumps

    def counting(value: Any, **how: Any) -> str:
        text: str = dumps(value, **how)
        written.append(len(text))
        return text

    monkeypatch.setattr(json, "dumps", counting)
    model.settle()

    assert len(model.pods) == 200
    assert 0 < sum(size > 4_000 for size in written) < 5
