"""The pod that reads models in a volume: one volume, for reading only, gone by itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.client import Client
from kubekit.errors import MusterError, UsageError
from kubekit.objects.kinds import CLUSTER_ROLE_BINDINGS, DEPLOYMENTS, EVENTS
from kubekit.objects.meta import Raw
from kubekit.request_errors import ServerError
from muster.cli import main
from muster.client.models.read_models import failure_in
from muster.client.models.reader_job import find_place, pod_with_volume, reader_image, reader_job
from muster.contract.exported_models import MODEL_DIR
from muster.jobs import names
from tests.api_in_memory import ApiInMemory
from tests.muster.client.models.test_runner_pod import CLAIM, job


def read(given: Raw, **options: Any) -> tuple[Raw, Raw, Raw]:
    """The Job, the spec of its pod, and its container."""
    made = reader_job(find_place(given), "team", "muster:1", **options)
    spec = made["spec"]["template"]["spec"]
    return made, spec, spec["containers"][0]


def with_uid(volume: Raw = CLAIM, **spec: Any) -> Raw:
    made = job(volume, **spec)
    made["metadata"]["uid"] = "u"
    return made


def test_the_pod_mounts_the_volume_of_the_models_alone_and_for_reading_only() -> None:
    _, pod, container = read(with_uid())

    assert pod["volumes"] == [{"name": "models", **CLAIM}]
    assert container["volumeMounts"] == [
        {"name": "models", "mountPath": "/models", "readOnly": True}
    ]
    assert container["command"] == ["muster", "models", "print-versions", "/models", "u/export"]
    assert container["image"] == "muster:1"
    assert pod["automountServiceAccountToken"] is False
    assert pod["nodeSelector"] == {"a": "b"}


def test_the_cluster_removes_the_reader_also_if_nobody_else_does() -> None:
    made, _, _ = read(with_uid())

    assert made["spec"]["activeDeadlineSeconds"] == 120
    assert made["spec"]["ttlSecondsAfterFinished"] == 60
    assert made["spec"]["backoffLimit"] == 0
    assert made["metadata"]["labels"] == {"muster.dev/model-reader": "j"}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("TFJob", "j", "u")


def test_names_are_short_and_different_for_every_job() -> None:
    names = set()
    for name in ("j", "j" * 53, "j" * 54):
        given = with_uid()
        given["metadata"]["name"] = name
        made, _, _ = read(given)
        names.add(made["metadata"]["name"])

    assert len(names) == 3
    assert max(map(len, names)) <= 52


@pytest.mark.parametrize(
    ("pod", "container", "expected"),
    [
        ({}, {}, {"runAsNonRoot": True}),
        ({"runAsUser": 7}, {}, {"runAsUser": 7, "runAsNonRoot": True}),
        ({"runAsUser": 7}, {"runAsUser": 0}, {"runAsUser": 0, "runAsNonRoot": False}),
        (
            {"fsGroup": 5},
            {"privileged": True},
            {"fsGroup": 5, "fsGroupChangePolicy": "OnRootMismatch", "runAsNonRoot": True},
        ),
    ],
)
def test_the_reader_is_the_user_of_the_job_without_its_privileges(
    pod: Raw, container: Raw, expected: Raw
) -> None:
    given = with_uid(securityContext=pod)
    worker = given["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["securityContext"] = container

    _, made, reader = read(given)

    assert made["securityContext"] == {**expected, "seccompProfile": {"type": "RuntimeDefault"}}
    assert reader["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def pod(node: str, volume: Raw, phase: str = "Running", **spec: Any) -> Raw:
    """A pod of the job that has a volume."""
    return {
        "metadata": {"name": node, "labels": {names.JOB: "j"}},
        "spec": {"nodeName": node, "volumes": [{"name": "any", **volume}], **spec},
        "status": {"phase": phase},
    }


OTHER = {"persistentVolumeClaim": {"claimName": "other"}}
DISK = {"hostPath": {"path": "/disk"}}


@pytest.mark.parametrize(
    ("volume", "pods", "node"),
    [
        (CLAIM, [pod("a", OTHER), pod("z", CLAIM)], "z"),
        (CLAIM, [pod("a", CLAIM, "Succeeded"), pod("z", CLAIM)], "z"),
        (CLAIM, [pod("a", CLAIM, "Pending"), pod("z", CLAIM)], "z"),
        (CLAIM, [pod("", CLAIM, "Pending"), pod("a", OTHER)], None),
        (CLAIM, [{**pod("z", CLAIM), "metadata": {"name": "of-another-job"}}], "z"),
        (DISK, [pod("a", CLAIM), pod("z", DISK)], "z"),
        (DISK, [{**pod("z", DISK), "metadata": {"name": "of-another-job"}}], None),
    ],
)
def test_the_reader_runs_where_the_volume_is(volume: Raw, pods: list[Raw], node: str) -> None:
    found = pod_with_volume(find_place(with_uid(volume)), pods)

    assert (found["spec"]["nodeName"] if found else None) == node


def test_the_reader_tolerates_what_the_pod_beside_it_tolerates() -> None:
    tolerations = [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 9}]
    given = with_uid(tolerations=[{"key": "old"}])

    _, made, _ = read(given, beside=pod("n2", CLAIM, tolerations=tolerations))

    (term,) = made["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchFields"][0]["values"] == ["n2"]
    assert made["tolerations"] == tolerations
    assert "nodeSelector" not in made
    assert "affinity" not in read(given)[1]
    assert read(given)[1]["tolerations"] == [{"key": "old"}]


@pytest.mark.parametrize(
    ("volume", "directory", "problem"),
    [
        ({"emptyDir": {}}, "/models/x", "which only its pod has"),
        (CLAIM, "/elsewhere", "no replica of j mounts /elsewhere"),
        (CLAIM, "models", "does not say where it exports models"),
        (CLAIM, "", "does not say where it exports models"),
        (CLAIM, "/models/../etc", "no replica of j mounts /etc"),
    ],
)
def test_a_directory_that_no_pod_could_read_is_refused(
    volume: Raw, directory: str, problem: str
) -> None:
    given = with_uid(volume)
    given["metadata"]["annotations"][MODEL_DIR] = directory

    with pytest.raises(MusterError, match=problem):
        find_place(given)


def test_the_path_that_a_template_expands_is_refused() -> None:
    given = with_uid()
    worker = given["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["volumeMounts"][0]["subPathExpr"] = "$(POD)"

    with pytest.raises(MusterError, match="subPathExpr"):
        find_place(given)


def test_a_directory_that_the_reader_may_not_open_is_named_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models").symlink_to("/etc")

    code = main.run("muster", ["models", "print-versions", str(tmp_path), "models"])

    log = ["a warning", *capsys.readouterr().err.splitlines()]
    assert code == 1
    assert re.match(r"user \d+ cannot read models in the volume: ", failure_in(log))
    assert "runAsUser" in failure_in(log)


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ([], "no answer"),
        (["warning", "Killed"], "Killed"),
        (["error: no such command", "See `muster --help`."], "no such command"),
    ],
)
def test_the_failure_of_a_reader_is_its_error_without_hints(log: list[str], why: str) -> None:
    assert failure_in(log) == why


KINDS = {kind.kind: kind for kind in (CLUSTER_ROLE_BINDINGS, DEPLOYMENTS, EVENTS)}


def cluster_of(*objects: Raw, secret: tuple[str, ...] = ()) -> Client:
    """A client of a cluster with these objects that may not read the kinds in `secret`."""
    server = ApiInMemory(slow=0)
    for row in objects:
        server.add(row, kind=KINDS[row["kind"]])
    server.forbidden = {f"GET {KINDS[name].plural}" for name in secret}
    return Client(server)


def deployment(namespace: str, name: str, image: str) -> Raw:
    labels = {"app.kubernetes.io/part-of": "muster"}
    pod = {"spec": {"containers": [{"name": "main", "image": image}]}}
    meta = {"namespace": namespace, "name": name, "labels": labels}
    return {"kind": "Deployment", "metadata": meta, "spec": {"template": pod}}


def binding(name: str, namespace: str) -> Raw:
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"kind": "ClusterRoleBinding", "metadata": {"name": name}, "subjects": [subject]}


TENANT = deployment("aaa", "muster-scheduler", "evil")


@pytest.mark.parametrize("name", ["muster-scheduler", "muster-operator"])
async def test_the_image_is_the_one_in_the_namespace_that_an_administrator_bound(name: str) -> None:
    cluster = cluster_of(TENANT, deployment("muster", name, "good"), binding(name, "muster"))

    assert await reader_image(cluster) == "good"
    assert await reader_image(cluster, "named") == "named"


@pytest.mark.parametrize(
    "cluster",
    [
        cluster_of(TENANT),
        cluster_of(TENANT, binding("muster-scheduler", "muster")),
        cluster_of(TENANT, binding("muster-scheduler", "aaa"), secret=("ClusterRoleBinding",)),
    ],
)
async def test_without_a_binding_no_image_is_taken_from_a_tenant(cluster: Client) -> None:
    assert await reader_image(cluster, default="muster") == "muster"
    with pytest.raises(UsageError, match="is not known") as caught:
        await reader_image(cluster)
    assert "--image" in caught.value.hint
    assert "--reader-image" in caught.value.hint


async def test_a_server_that_fails_is_no_missing_installation() -> None:
    server = ApiInMemory()
    server.answers.append(ServerError("etcd is away", status=500))

    with pytest.raises(ServerError, match="etcd is away"):
        await reader_image(Client(server), default="muster")
