"""`arena submit` on an API server: arena's lines, the objects of a job, files, outputs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.client.request import Request, Response
from kubekit.objects.kinds import CONFIG_MAPS, DEPLOYMENTS, PERSISTENT_VOLUME_CLAIMS, SERVICES
from muster.client.submit.submit import missing_volumes
from muster.contract.job_kinds import JAXJOBS, TFJOBS
from muster.jobs.build import job_manifest
from muster.jobs.build.job_manifest import Bundle
from tests.muster.cli.seeds import SEEDS
from tests.muster.cli.submitter import TF, Submitter


def test_the_seeds_tensorflow_command_prints_arenas_lines(submitter: Submitter) -> None:
    code, out, err = submitter.arena(*SEEDS["tensorflow"])

    assert code == 0
    assert out == [
        "configmap/tf-dist-git-tfjob created",
        "configmap/tf-dist-git-tfjob labeled",
        "tfjob.kubeflow.org/tf-dist-git created",
    ]
    get = f"arena get tf-dist-git --type tfjob -n {submitter.namespace}"
    assert err.splitlines()[-2:] == [
        "INFO[0000] The Job tf-dist-git has been submitted successfully",
        f"INFO[0000] You can run `{get}` to check the job status",
    ]


def test_the_seeds_mpi_command_prints_arenas_lines(submitter: Submitter) -> None:
    code, out, _ = submitter.arena(*SEEDS["mpi of 5"])

    assert code == 0
    assert out == [
        "configmap/mpi-dist-mpijob created",
        "configmap/mpi-dist-mpijob labeled",
        "service/mpi-dist-tensorboard created",
        "deployment.apps/mpi-dist-tensorboard created",
        "mpijob.kubeflow.org/mpi-dist created",
    ]


def test_the_job_owns_its_companions_and_the_record_holds_its_spec(submitter: Submitter) -> None:
    assert submitter.arena(*TF, "--tensorboard", "x")[0] == 0

    job = submitter.get(TFJOBS, "j")
    owner = {
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j",
        "uid": job["metadata"]["uid"],
    }  # fmt: skip
    for kind, name in ((CONFIG_MAPS, "j-tfjob"), (SERVICES, "j-tensorboard"),
                       (DEPLOYMENTS, "j-tensorboard")):  # fmt: skip
        companion = submitter.get(kind, name)
        assert companion["metadata"]["ownerReferences"] == [owner]
    record = submitter.get(CONFIG_MAPS, "j-tfjob")
    assert record["metadata"]["labels"] == {"createdBy": "arena"}
    assert record["data"]["app"] == "tfjob.kubeflow.org/j"
    assert "tfReplicaSpecs" in record["data"]["values"]


def test_job_pods_and_tensorboard_are_labelled_with_the_user(submitter: Submitter) -> None:
    submitter.arena(*TF, "--ps=1", "--tensorboard", "x")

    job, service, deployment = (
        submitter.get(kind, name)
        for kind, name in (
            (TFJOBS, "j"), (SERVICES, "j-tensorboard"), (DEPLOYMENTS, "j-tensorboard"),
        )
    )  # fmt: skip
    user = job["metadata"]["annotations"]["arena.kubeflow.org/username"]
    digest = hashlib.md5(user.encode()).hexdigest()
    templates = [row["template"] for row in job["spec"]["tfReplicaSpecs"].values()]
    for item in (job, service, deployment, deployment["spec"]["template"], *templates):
        assert item["metadata"]["labels"]["arena.kubeflow.org/uid"] == digest


def test_a_label_of_the_user_replaces_arenas_own(submitter: Submitter) -> None:
    submitter.arena(*TF, "--label=arena.kubeflow.org/uid=mine", "x")

    job = submitter.get(TFJOBS, "j")
    assert job["metadata"]["labels"]["arena.kubeflow.org/uid"] == "mine"


def test_the_objects_are_built_once_before_the_cluster_is_contacted(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    build, send = job_manifest.bundle, BlockingClient.send

    def bundle(*args: Any) -> Bundle:
        steps.append("build")
        return build(*args)

    def request(self: BlockingClient, ask: Request) -> Response:
        steps.append("send")
        return send(self, ask)

    monkeypatch.setattr(job_manifest, "bundle", bundle)
    monkeypatch.setattr(BlockingClient, "send", request)
    assert submitter.arena(*TF, "x")[0] == 0

    assert steps[0] == "build"
    assert steps.count("build") == 1


def test_config_files_too_large_for_a_config_map_are_refused(submitter: Submitter) -> None:
    (submitter.home / "big").write_bytes(b"x" * ((1 << 20) + 1))

    code, _, err = submitter.arena(*TF, f"--config-file={submitter.home}/big:/etc/app/big", "x")

    assert code == 2
    assert "big are 1,048,577 bytes; a ConfigMap holds 1,048,576" in err
    assert submitter.objects() == []


def test_config_files_become_config_maps_of_the_job(submitter: Submitter) -> None:
    (submitter.home / "a.conf").write_text("text")
    (submitter.home / "b.bin").write_bytes(b"\xff\x00")
    files = [
        f"--config-file={submitter.home}/{name}:/etc/app/{name}" for name in ("a.conf", "b.bin")
    ]
    code, out, _ = submitter.arena(*TF, *files, "x")

    assert code == 0
    name = next(line for line in out if line.startswith("configmap/j-") and "tfjob" not in line)
    config_map = submitter.get(CONFIG_MAPS, name.split()[0].removeprefix("configmap/"))
    assert config_map["data"] == {"a.conf": "text"}
    assert config_map["binaryData"] == {"b.bin": "/wA="}
    assert config_map["metadata"]["ownerReferences"][0]["name"] == "j"


def test_a_claim_that_does_not_exist_gets_a_warning(submitter: Submitter) -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "set"}, "spec": spec}
    with submitter.client() as client:
        client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace=submitter.namespace)

    code, _, err = submitter.arena(*TF, "--data=set:/set", "--data=nothing:/data", "x")

    assert code == 0
    where = f"in the namespace {submitter.namespace}"
    assert f"warning: there is no volume claim nothing {where}: the job waits" in err
    assert "volume claim set" not in err


def test_a_manifest_with_volumes_that_do_not_exist_gets_warnings(submitter: Submitter) -> None:
    missing = str(submitter.home / "nosuch")
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "nothing"}},
        {"name": "b", "hostPath": {"path": missing}},
        {"name": "c", "hostPath": {"path": f"{missing}-2", "type": "DirectoryOrCreate"}},
        {"name": "d", "hostPath": {"path": str(submitter.home)}},
    ]
    pod = {"volumes": volumes, "containers": [{"name": "tensorflow", "image": "i"}]}
    spec = {"tfReplicaSpecs": {"Worker": {"template": {"spec": pod}}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "m"}}
    file = submitter.home / "volumes.json"
    file.write_text(json.dumps({**job, "spec": spec}))

    code, _, err = submitter.arena("submit", "-f", str(file))

    assert code == 0
    (warning,) = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert "there is no volume claim nothing" in warning
    with submitter.client() as client:
        stored = submitter.get(TFJOBS, "m")
        sentences = list(missing_volumes(client, stored, submitter.namespace, local=True))
    problem = f"there is no {missing} on this machine"
    assert sentences[1:] == [f"{problem}: the job waits until it exists"]


def test_a_priority_that_does_not_exist_is_refused(submitter: Submitter) -> None:
    code, _, err = submitter.arena(*TF, "--priority=nobody", "x")

    assert code == 2
    assert "there is no priority class nobody\n`arena get priorityclasses` lists them" in err
    assert submitter.objects() == []


@pytest.mark.parametrize("output", ["yaml", "json", "name"])
def test_the_created_objects_can_be_printed(submitter: Submitter, output: str) -> None:
    code, out, _ = submitter.arena(*TF, "-o", output, "x")

    assert code == 0
    if output == "name":
        assert out == ["configmap/j-tfjob", "tfjob.kubeflow.org/j"]
    else:
        assert any("uid" in line for line in out)


def test_a_job_is_submitted_from_a_short_file_with_changes(submitter: Submitter) -> None:
    file = submitter.home / "job.yaml"
    file.write_text(
        "kind: tf\nname: j\nimage: i\nworkers: 2\nenv: {A: 1, B: 'x, y'}\n"
        "command: python t.py --x 'a b'\n"
    )
    code, out, _ = submitter.arena(
        "submit", "-f", str(file), "--set", "workers=4", "--set", "env.A=2"
    )

    assert code == 0
    assert out[-1] == "tfjob.kubeflow.org/j created"
    job = submitter.get(TFJOBS, "j")
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    assert worker["replicas"] == 4
    main = worker["template"]["spec"]["containers"][0]
    assert {"name": "A", "value": "2"} in main["env"]
    assert main["command"] == ["sh", "-c", "exec python t.py --x 'a b'"]


def test_any_manifest_of_a_job_is_submitted_with_changes(submitter: Submitter) -> None:
    file = submitter.home / "job.yaml"
    built = submitter.run(*TF, "--dry-run", "-o", "yaml", "x")
    file.write_text(built[1])
    code, out, err = submitter.arena(
        "submit", "-f", str(file), "--set", "metadata.name=other",
        "--set", "spec.tfReplicaSpecs.Worker.replicas=3",
    )  # fmt: skip

    assert code == 0, err
    assert out == [
        "configmap/other-tfjob created",
        "configmap/other-tfjob labeled",
        "tfjob.kubeflow.org/other created",
    ]
    job = submitter.get(TFJOBS, "other")
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3


def test_the_output_of_a_dry_run_can_be_submitted(submitter: Submitter) -> None:
    file = submitter.home / "all.yaml"
    file.write_text(submitter.run(*TF, "--tensorboard", "--dry-run", "x")[1])
    code, out, err = submitter.arena("submit", "-f", str(file), "--set", "spec.suspend=true")

    assert code == 0, err
    assert out == [
        "configmap/j-tfjob created",
        "configmap/j-tfjob labeled",
        "service/j-tensorboard created",
        "deployment.apps/j-tensorboard created",
        "tfjob.kubeflow.org/j created",
    ]


def test_a_dry_run_names_all_objects(submitter: Submitter) -> None:
    _, dry, _ = submitter.arena(*TF, "--tensorboard", "--dry-run", "-o", "name", "x")
    _, real, _ = submitter.arena(*TF, "--tensorboard", "-o", "name", "x")

    assert dry == real
    assert dry[0] == "configmap/j-tfjob"


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_the_flags_about_the_cluster_may_stand_anywhere(submitter: Submitter, at: int) -> None:
    where = ["--kubeconfig", str(submitter.kubeconfig), "-n", submitter.namespace]
    words = ["submit", "jax", "--name=any", "--image=i", "x"]
    code, out, err = submitter.run(*words[:at], *where, *words[at:])

    assert code == 0, err
    assert "jaxjob.kubeflow.org/any created" in out
    assert submitter.find(JAXJOBS, "any") is not None
