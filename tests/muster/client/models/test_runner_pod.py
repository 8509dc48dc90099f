"""The pod that uses a model has the image, environment and volumes of its job, and little else."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.errors import MusterError
from kubekit.objects.meta import Key, Raw
from muster.client.models.catalog import PublishedModel
from muster.client.models.runner_pod import names_directory, runner_pod, version_folder
from muster.contract.exported_models import MODEL_DIR, Maker, Model, Version

DIRECTORY = "/models/u/export"
PUBLISHED = PublishedModel(
    Key("team", "model-tfjob-j"),
    Model("j", Maker("kubeflow.org/v1", "TFJob", "j", "u"), DIRECTORY, (Version("2", "2"),)),
)


def job(volume: Raw, **spec: Any) -> Raw:
    container = {
        "name": "tensorflow",
        "image": "tf:2",
        "command": ["python", "train.py"],
        "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
        "ports": [{"containerPort": 1}],
        "volumeMounts": [
            {"name": "models", "mountPath": "/models"},
            {"name": "tmp", "mountPath": "/scratch"},
        ],
    }
    volumes = [{"name": "models", **volume}, {"name": "tmp", "emptyDir": {}}]
    pod = {"containers": [container], "volumes": volumes, "nodeSelector": {"a": "b"}} | spec
    server = {"containers": [{"name": "tensorflow", "image": "ps:1"}]}
    roles = {
        "PS": {"replicas": 1, "template": {"spec": server}},
        "Worker": {"replicas": 1, "template": {"spec": pod}},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "j", "namespace": "team", "annotations": {MODEL_DIR: DIRECTORY}},
        "spec": {"tfReplicaSpecs": roles},
    }


CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}


def test_the_pod_has_what_the_model_needs_and_no_gpu_token_or_write_access() -> None:
    made = runner_pod(PUBLISHED, job(CLAIM), ["python", "-c", "x $(A)"], seconds=9)

    spec, (container,) = made["spec"], made["spec"]["containers"]
    assert made["metadata"]["namespace"] == "team"
    assert container["image"] == "tf:2"
    assert {"name": "A", "value": "1"} in container["env"]
    assert container["volumeMounts"] == [
        {"name": "models", "mountPath": "/models", "readOnly": True},
        {"name": "tmp", "mountPath": "/scratch"},
    ]
    assert container["command"] == ["python", "-c", "x $$(A)"]
    assert "resources" not in container
    assert "ports" not in container
    assert spec["automountServiceAccountToken"] is False
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 9)
    assert spec["nodeSelector"] == {"a": "b"}


def test_a_model_in_an_empty_dir_cannot_be_reached() -> None:
    with pytest.raises(MusterError, match="emptyDir"):
        runner_pod(PUBLISHED, job({"emptyDir": {}}), ["true"], seconds=9)


def test_a_job_without_the_volume_is_an_error() -> None:
    elsewhere = PublishedModel(PUBLISHED.key, Model(directory="/elsewhere"))
    with pytest.raises(MusterError, match="mounts /elsewhere"):
        runner_pod(elsewhere, job(CLAIM), ["true"], seconds=9)


def test_only_a_job_that_names_the_directory_is_used() -> None:
    assert names_directory(job(CLAIM), DIRECTORY)
    assert not names_directory(job(CLAIM), "/")


@pytest.mark.parametrize("path", ["..", "1/../../..", "/etc/.."])
def test_a_changed_config_map_leads_to_no_other_folder(path: str) -> None:
    with pytest.raises(MusterError):
        version_folder(PUBLISHED, Version("1", path))


def test_the_folder_of_a_version() -> None:
    assert version_folder(PUBLISHED, Version("2", "2")) == f"{DIRECTORY}/2"
    assert version_folder(PUBLISHED, Version("latest", ".")) == DIRECTORY
