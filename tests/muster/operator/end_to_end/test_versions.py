"""Manifests of every version: written in one version, read back unchanged in every other, and run.

Each manifest uses all fields of its version, so that the test notices a field that a schema prunes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Key
from muster.contract.job_kinds import MPIJOBS, TFJOBS
from tests.muster.operator.builders import template
from tests.muster.operator.driver import condition, operating, pods

if TYPE_CHECKING:
    from kubekit.client.client import Client
    from kubekit.objects.meta import Raw

pytestmark = pytest.mark.slow

TF_VERSIONS = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1")
MPI_VERSIONS = ("v1alpha1", "v1alpha2", "v1", "v2beta1")


def full(name: str = "tensorflow") -> Raw:
    """A template with fields of many types, one of them unknown to Kubernetes."""
    body = template(name, nodeSelector={"a": "b"}, tolerations=[{"operator": "Exists"}])
    body["metadata"] = {"labels": {"l": "1"}, "annotations": {"a": "2"}}
    body["spec"]["containers"][0] |= {
        "ports": [{"name": "tfjob-port", "containerPort": 22222}],
        "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": 1}},
        "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    }
    return body


def role(count: int, restart: str = "", name: str = "tensorflow") -> Raw:
    more = {"restartPolicy": restart} if restart else {}
    return {"replicas": count, "template": full(name), **more, "unheardOf": {"x": [1, {"y": 2}]}}


MAP: Raw = {
    "tfReplicaSpecs": {
        "Chief": role(1, "Never"),
        "Ps": role(1, "ExitCode"),
        "WORKER": role(2, "OnFailure"),
        "evaluator": role(1, "Always"),
    },
    "cleanPodPolicy": "All",
    "ttlSecondsAfterFinished": 3600,
}
FLAT: Raw = {**MAP, "activeDeadlineSeconds": 7200, "backoffLimit": 3}
NESTED: Raw = {
    "tfReplicaSpecs": MAP["tfReplicaSpecs"],
    "successPolicy": "AllWorkers",
    "enableDynamicWorker": True,
    "runPolicy": {
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": 3600,
        "activeDeadlineSeconds": 7200,
        "backoffLimit": 3,
        "suspend": False,
        "managedBy": "kubeflow.org/training-operator",
        "schedulingPolicy": {
            "minAvailable": 2,
            "queue": "q",
            "minResources": {"cpu": "2"},
            "priorityClass": "high",
            "scheduleTimeoutSeconds": 60,
        },
    },
}
ARRAY: Raw = {
    "RuntimeId": "5oz2",
    "tfImage": "tensorflow/tensorflow:1.3.0",
    "schedulerName": "kube-batchd",
    "cleanupPodPolicy": "All",
    "terminationPolicy": {"chief": {"replicaName": "MASTER", "replicaIndex": 0}},
    "replicaSpecs": [
        {"tfReplicaType": "MASTER", "tfPort": 22223, **role(1)},
        {"tfReplicaType": "WORKER", **role(2)},
        {"tfReplicaType": "PS", **role(2)},
    ],
}
MPI_ONE: Raw = {
    "gpus": 4,
    "gpusPerNode": 2,
    "slotsPerWorker": 2,
    "launcherOnMaster": True,
    "backoffLimit": 2,
    "activeDeadlineSeconds": 7200,
    "cleanPodPolicy": "Running",
    "launcherResources": {"limits": {"cpu": "1"}},
    "mountsOnLauncher": False,
    "template": full("mpi"),
}
MPI_TWO: Raw = {
    "slotsPerWorker": 2,
    "cleanPodPolicy": "Running",
    "mainContainer": "mpi",
    "backoffLimit": 2,
    "activeDeadlineSeconds": 7200,
    "mpiReplicaSpecs": {"Launcher": role(1, name="mpi"), "Worker": role(2, "Never", "mpi")},
}
MPI_SSH: Raw = {
    "slotsPerWorker": 2,
    "runLauncherAsWorker": False,
    "sshAuthMountPath": "/home/mpi/.ssh",
    "launcherCreationPolicy": "WaitForWorkersReady",
    "mpiImplementation": "Intel",
    "runPolicy": {**NESTED["runPolicy"], "managedBy": "kubeflow.org/mpi-operator"},
    "mpiReplicaSpecs": {"Launcher": role(1, "OnFailure", "mpi"), "Worker": role(2, name="mpi")},
}


@pytest.mark.parametrize(
    ("kind", "version", "spec", "count"),
    [
        (TFJOBS, "v1alpha1", ARRAY, 5),
        (TFJOBS, "v1alpha2", MAP, 5),
        (TFJOBS, "v1beta1", MAP, 5),
        (TFJOBS, "v1beta2", FLAT, 5),
        pytest.param(TFJOBS, "v1", FLAT, 5, id="TFJob-v1-flat"),
        pytest.param(TFJOBS, "v1", NESTED, 5, id="TFJob-v1-nested"),
        (MPIJOBS, "v1alpha1", MPI_ONE, 2),
        (MPIJOBS, "v1alpha2", MPI_TWO, 2),
        (MPIJOBS, "v1", MPI_TWO, 2),
        (MPIJOBS, "v2beta1", MPI_SSH, 2),
    ],
    ids=lambda value: getattr(value, "kind", value if isinstance(value, str) else ""),
)
async def test_a_manifest_of_any_version_is_read_back_whole_through_every_other_and_runs(
    client: Client, ns: str, kind: Kind[Raw], version: str, spec: Raw, count: int
) -> None:
    key = Key(ns, "j")
    await client.create(served(kind, version), {"metadata": key._asdict(), "spec": spec})
    others = TF_VERSIONS if kind == TFJOBS else MPI_VERSIONS
    for other in others:
        job = await client.get(served(kind, other), key)
        assert lost(spec, job["spec"]) == [], other

    async with operating(client):
        await pods(client, ns, count)
        job = await condition(client, served(kind, version), key, "Created")
    assert [row["type"] for row in job["status"]["conditions"]] == ["Created"]
    assert ("phase" in job["status"]) is ("replicaSpecs" in spec)

    # A client of another version that writes a label must not lose a field either.
    for other in others:
        change = {"metadata": {"labels": {"touched": other}}}
        touched = await client.patch(served(kind, other), key, change)
        assert lost({**spec, "status": job["status"]}, {**touched["spec"], **touched}) == []


def served(kind: Kind[Raw], version: str) -> Kind[Raw]:
    return Kind(kind.group, version, kind.plural, kind.kind, kind.model)


def lost(wanted: Any, actual: Any, path: str = "spec") -> list[str]:
    """The paths of all fields that were written and are lost; added defaults do not matter."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        inner = (lost(value, actual.get(name), f"{path}.{name}") for name, value in wanted.items())
        return [row for rows in inner for row in rows]
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        pairs = enumerate(zip(wanted, actual, strict=True))
        return [row for i, pair in pairs for row in lost(*pair, f"{path}[{i}]")]
    return [] if wanted == actual else [path]
