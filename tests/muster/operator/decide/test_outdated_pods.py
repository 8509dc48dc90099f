"""A job that is scaled while its pods wait starts with the new numbers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Raw
from muster.operator.decision_types import Delete, Patch
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import Model, manifest, replica
from tests.muster.operator.simulation import JOB, POD, operating, passes, submit

CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch", "JAXJob": "jax", "MPIJob": "mpi"}


def model_of(kind: str, workers: int, **spec: Any) -> Model:
    roles = {"Worker": replica(workers, name=CONTAINERS[kind])}
    if kind == "MPIJob":
        roles["Launcher"] = replica(1, name="mpi")
    if kind == "PyTorchJob" and "elasticPolicy" not in spec:
        roles["Master"] = replica(1, name="pytorch")
    model = Model(manifest(kind, roles, **spec))
    model.settle()
    return model


def scale(model: Model, workers: int) -> None:
    field = model.job.job_kind.replicas_field
    roles = model.raw["spec"][field]
    model.edit(**{field: {**roles, "Worker": {**roles["Worker"], "replicas": workers}}})
    model.settle()


def variables(model: Model, pod: str) -> dict[str, str]:
    rows = model.manifests[pod]["spec"]["containers"][0].get("env", [])
    return {row["name"]: row["value"] for row in rows}


@pytest.mark.parametrize("bound", [False, True])
def test_pods_that_wait_are_recreated_with_the_new_numbers(bound: bool) -> None:
    model = model_of("PyTorchJob", 2)
    if bound:
        for name, pod in model.pods.items():
            spec = msgspec.structs.replace(pod.spec, node_name="n")
            model.pods[name] = msgspec.structs.replace(pod, spec=spec)

    scale(model, 1)

    assert sorted(model.pods) == ["j-master-0", "j-worker-0"]
    for name in model.pods:
        assert variables(model, name)["WORLD_SIZE"] == "2"


def test_the_new_addresses_are_in_the_recreated_pods() -> None:
    model = model_of("TFJob", 3)

    scale(model, 2)

    config = json.loads(variables(model, "j-worker-0")["TF_CONFIG"])
    assert len(config["cluster"]["worker"]) == 2


def test_outdated_pods_are_deleted_before_the_gang_may_start_without_the_others() -> None:
    model = model_of("JAXJob", 3)
    model.log.clear()

    scale(model, 2)

    gone = [i for i, a in enumerate(model.log) if isinstance(a, Delete) and a.kind == PODS]
    (resized,) = [i for i, a in enumerate(model.log) if isinstance(a, Patch) and a.name == "j"]
    assert len(gone) == 3
    assert max(gone) < resized


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Running"},
        {"phase": "Pending", "containerStatuses": [{"name": "jax", "state": {"running": {}}}]},
    ],
)
def test_pods_that_have_started_keep_their_numbers(status: Raw) -> None:
    model = model_of("JAXJob", 2)
    model.pod("j-worker-0", **status)
    uid = model.pods["j-worker-0"].metadata.uid

    scale(model, 3)

    assert model.pods["j-worker-0"].metadata.uid == uid
    assert variables(model, "j-worker-0")["NUM_PROCESSES"] == "2"
    assert variables(model, "j-worker-1")["NUM_PROCESSES"] == "3"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("TFJob", {"enableDynamicWorker": True}),
        ("PyTorchJob", {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}),
        ("MPIJob", {}),
    ],
)
def test_jobs_whose_pods_do_not_contain_the_size_keep_their_waiting_pods(
    kind: str, spec: Raw
) -> None:
    model = model_of(kind, 3, **spec)
    before = {name: pod.metadata.uid for name, pod in model.pods.items()}

    scale(model, 2)

    after = {name: pod.metadata.uid for name, pod in model.pods.items()}
    assert after.items() <= before.items()
    assert "j-worker-1" in after


def test_pods_of_an_operator_that_recorded_no_size_are_left_alone() -> None:
    model = model_of("JAXJob", 3)
    for name, pod in model.pods.items():
        meta = msgspec.structs.replace(pod.metadata, annotations={})
        model.pods[name] = msgspec.structs.replace(pod, metadata=meta)
    uid = model.pods["j-worker-0"].metadata.uid

    scale(model, 2)

    assert model.pods["j-worker-0"].metadata.uid == uid


async def test_a_pod_that_starts_at_the_same_moment_is_not_killed() -> None:
    """The deletion carries the version that the operator saw, so the server refuses it."""
    server = ApiInMemory()
    running = {"name": "tensorflow", "state": {"running": {}}}
    status = {"phase": "Running", "containerStatuses": [running]}
    async with operating(server):
        submit(server, roles={"Worker": replica(3)})
        await passes()
        before = server.get(f"{POD}/j-worker-0")
        server.before["DELETE pods"] = lambda: server.patch(f"{POD}/j-worker-0", {"status": status})
        server.patch(JOB, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}})
        await passes()

        started, recreated = (server.get(f"{POD}/j-worker-{index}") for index in (0, 1))

    assert before is not None
    assert started is not None
    assert recreated is not None
    assert started["metadata"]["uid"] == before["metadata"]["uid"]
    assert recreated["metadata"]["annotations"]["muster.dev/cluster-size"] == "worker=2"
