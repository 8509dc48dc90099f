"""Jobs on the local API server: unknown fields are stored, with a warning or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from localkube.apiserver.kinds.custom_resources import KnownKinds
from muster.contract import crds
from muster.jobs.unknown_fields import unknown_field_paths
from tests.localkube.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient, Reply

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = "/apis/kubeflow.org/{}/namespaces/default/tfjobs"
JSON_PATCH = "application/json-patch+json"
V1 = JOBS.format("v1")
REPLICA = "spec.tfReplicaSpecs.Worker.replica"
COMMAND = "spec.tfReplicaSpecs.Worker.template.spec.containers[0].comand"


@pytest.fixture
async def jobs(tmp_path: Path) -> AsyncIterator[ApiClient]:
    """A server that knows the job kinds."""
    known = KnownKinds(unknown_field_paths, crds.immutable_fields())
    async with running_server(tmp_path, known=known) as api:
        for crd in crds.load_all():
            await api.send("POST", CRDS, crd)
        yield api


def job(name: str = "j", version: str = "v1", **spec: Any) -> Any:
    container = {"name": "tensorflow", "image": "i", "comand": ["python"]}
    worker = {"replica": 2, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": {"Worker": worker}, **spec},
    }


def warnings(reply: Reply) -> list[str]:
    return list(reply.headers.getall("Warning", []))


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha1"])
@pytest.mark.parametrize("query", ["", "?fieldValidation=Warn", "?fieldValidation=Strict"])
async def test_unknown_fields_are_stored_with_a_warning_each(
    jobs: ApiClient, version: str, query: str
) -> None:
    reply = await jobs.send("POST", JOBS.format(version) + query, job(version=version))

    assert reply.status == 201
    assert warnings(reply) == [f'299 - "unknown field \\"{path}\\""' for path in (REPLICA, COMMAND)]
    stored = (await jobs.send("GET", f"{V1}/j")).body["spec"]["tfReplicaSpecs"]["Worker"]
    assert stored["replica"] == 2
    assert stored["template"]["spec"]["containers"][0]["comand"] == ["python"]


async def test_a_request_that_ignores_unknown_fields_gets_no_warning(jobs: ApiClient) -> None:
    reply = await jobs.send("POST", f"{V1}?fieldValidation=Ignore", job())

    assert (reply.status, warnings(reply)) == (201, [])


async def test_a_patch_is_warned_only_about_unknown_fields_that_it_adds(
    jobs: ApiClient,
) -> None:
    await jobs.send("POST", f"{V1}?fieldValidation=Ignore", job())
    path = f"{V1}/j?fieldValidation=Strict"

    label = await jobs.send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    typo = await jobs.send("PATCH", path, {"spec": {"runPolcy": {}}}, MERGE)

    assert (label.status, warnings(label)) == (200, [])
    assert typo.status == 200
    assert warnings(typo) == ['299 - "unknown field \\"spec.runPolcy\\""']


async def test_a_write_of_the_status_gets_no_warning_about_the_spec(jobs: ApiClient) -> None:
    await jobs.send("POST", f"{V1}?fieldValidation=Ignore", job())
    reply = await jobs.send("PATCH", f"{V1}/j/status", {"status": {"other": 1}}, MERGE)

    assert (reply.status, warnings(reply)) == (200, [])
    assert reply.body["status"] == {"other": 1}


async def test_nulls_and_amounts_of_every_form_are_accepted(jobs: ApiClient) -> None:
    policy = {"suspend": None, "schedulingPolicy": {"minResources": {"cpu": 0.5, "memory": "1Gi"}}}
    body = job(runPolicy=policy, successPolicy=None)
    body["spec"]["tfReplicaSpecs"]["PS"] = None
    body["status"] = {"conditions": "not written", "replicaStatuses": None}

    assert (await jobs.send("POST", V1, body)).status == 201


async def test_a_wrong_type_is_refused_with_its_path(jobs: ApiClient) -> None:
    body = job()
    body["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = "2"
    reply = await jobs.send("POST", V1, body)

    assert reply.status == 422
    assert (
        "spec.tfReplicaSpecs.Worker.replicas in body must be of type integer"
        in (reply.body["message"])
    )


OTHER = {"managedBy": "kueue.x-k8s.io/multikueue"}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha1"])
@pytest.mark.parametrize(
    ("before", "change", "path"),
    [
        ({"runPolicy": OTHER}, {"runPolicy": {"managedBy": None}}, "spec.runPolicy.managedBy"),
        ({}, {"runPolicy": OTHER}, "spec.runPolicy.managedBy"),
        (OTHER, {"managedBy": "kubeflow.org/training-operator"}, "spec.managedBy"),
    ],
)
async def test_the_controller_of_a_job_cannot_be_changed(
    jobs: ApiClient, version: str, before: Any, change: Any, path: str
) -> None:
    await jobs.send("POST", JOBS.format(version), job(version=version, **before))
    url = f"{JOBS.format(version)}/j"

    reply = await jobs.send("PATCH", url, {"spec": change}, content_type=MERGE)

    assert reply.status == 422
    (cause,) = reply.body["details"]["causes"]
    assert (cause["field"], cause["message"]) == (path, "Invalid value: field is immutable")
    other = {"runPolicy": {"suspend": True}}
    assert (await jobs.send("PATCH", url, {"spec": other}, content_type=MERGE)).status == 200
