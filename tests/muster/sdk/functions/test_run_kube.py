"""Objects of a function on a real API server, and the rights of rank 0 there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster
from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import SECRETS
from kubekit.objects.meta import Key
from muster.sdk.functions import result, result_keys
from muster.sdk.functions.standalone import program
from muster.sdk.functions.standalone.program import NotWritten, ResultSecret
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.muster.cli.conftest import teach

pytestmark = [pytest.mark.kube, pytest.mark.slow]
NAMESPACE = "science"
# The parts of Kubernetes' roles admin and edit; a controller puts them together, and runs not here.
EDIT = ("system:aggregate-to-edit", "system:aggregate-to-view")
PEOPLE = {"admin": ("system:aggregate-to-admin", *EDIT), "edit": EDIT}
ALL = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A cluster with a namespace that two people share."""
    with ControlPlane(control_plane_binaries) as plane:
        teach(plane.kubeconfig)
        kubectl(plane, "create", "namespace", NAMESPACE)
        kubectl(
            plane, "create", "clusterrole", "jobs", "--verb=*",
            "--resource=jaxjobs.kubeflow.org,tfjobs.kubeflow.org",
        )  # fmt: skip
        for person, roles in PEOPLE.items():
            kubectl(plane, "create", "serviceaccount", person)
            for number, role in enumerate((*roles, "jobs")):
                kubectl(
                    plane, "create", "rolebinding", f"{person}-{number}", f"--clusterrole={role}",
                    f"--serviceaccount={NAMESPACE}:{person}",
                )  # fmt: skip
        default = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default"},
            "imagePullSecrets": [{"name": "registry"}],
        }
        kubectl(plane, "create", "-f", "-", text=json.dumps(default))
        yield plane


def kubectl(plane: ControlPlane, *words: str, text: str | None = None) -> str:
    result = plane.kubectl(*words, "-n", NAMESPACE, input=text)
    assert result.returncode == 0, result.stderr
    return result.stdout


def user(plane: ControlPlane, role: str, folder: Path) -> Path:
    """The kubeconfig of a person with this role in the namespace."""
    token = kubectl(plane, "create", "token", role).strip()
    file = folder / f"{role}.kubeconfig"
    file.write_text(json.dumps(kubeconfig(plane.url, plane.ca_file.read_bytes(), token=token)))
    return file


def submit(config: Path, name: str | None = None) -> muster.Job:
    return muster.run(
        len, ("abc",), kind="jax", workers=2, name=name, image="python:3.11",
        kubeconfig=config, namespace=NAMESPACE,
    )  # fmt: skip


def allowed(plane: ControlPlane, account: str, verb: str, resource: str, name: str) -> bool:
    """Whether the API server lets the account do that."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:{account}",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "namespace": NAMESPACE, "verb": verb, "resource": resource, "name": name,
            },
        },
    }  # fmt: skip
    status, answer = plane.request(
        "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review
    )
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


def test_an_admin_of_a_namespace_creates_all_objects_and_the_job_owns_them(
    plane: ControlPlane, tmp_path: Path
) -> None:
    job = submit(user(plane, "admin", tmp_path), "owned")

    objects = json.loads(
        kubectl(
            plane, "get", "secrets,serviceaccounts,roles,rolebindings", "-l", "release=owned",
            "-o", "json",
        )
    )["items"]  # fmt: skip
    assert sorted((row["kind"], row["metadata"]["name"]) for row in objects) == [
        ("Role", "owned-rank-0"),
        ("RoleBinding", "owned-rank-0"),
        ("Secret", "owned-function"),
        ("Secret", "owned-result"),
        ("ServiceAccount", "owned-rank-0"),
    ]
    assert {row["metadata"]["ownerReferences"][0]["uid"] for row in objects} == {job.uid}
    account = next(row for row in objects if row["kind"] == "ServiceAccount")
    assert account["imagePullSecrets"] == [{"name": "registry"}]
    worker = job.manifest()["spec"]["jaxReplicaSpecs"]["Worker"]["template"]["spec"]
    assert "serviceAccountName" not in worker  # it would be that of all workers
    annotations = job.manifest()["metadata"]["annotations"]
    assert annotations["muster.dev/rank-0-service-account"] == "owned-rank-0"


def test_rank_0_may_get_and_patch_its_result_and_nothing_else(
    plane: ControlPlane, tmp_path: Path
) -> None:
    submit(user(plane, "admin", tmp_path), "rights")
    submit(user(plane, "admin", tmp_path), "rights-of-another")

    rows = [
        (resource, name, verb)
        for resource in ("secrets", "configmaps", "pods", "pods/exec", "serviceaccounts")
        for name in ("", "rights-result", "rights-function", "rights-of-another-result")
        for verb in ALL
        if allowed(plane, "rights-rank-0", verb, resource, name)
    ]

    assert rows == [("secrets", "rights-result", "get"), ("secrets", "rights-result", "patch")]
    assert not any(
        allowed(plane, "default", verb, "secrets", "rights-result") for verb in ("get", "patch")
    )


def test_a_user_who_may_not_create_roles_is_told_so_and_nothing_is_left(
    plane: ControlPlane, tmp_path: Path
) -> None:
    with pytest.raises(muster.Forbidden, match="roles") as refused:
        submit(user(plane, "edit", tmp_path), "refused")

    assert "muster.run needs the right to create Secrets" in refused.value.hint
    kinds = "jaxjobs,secrets,serviceaccounts,roles,rolebindings,configmaps"
    left = kubectl(plane, "get", kinds, "-o", "name")
    assert "refused" not in left


@pytest.fixture
def rank_0(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> muster.Job:
    """A job, and this process in place of its rank 0: with the token of its account."""
    job = submit(user(plane, "admin", tmp_path))
    token = kubectl(plane, "create", "token", f"{job.name}-rank-0")
    for name, text in (("token", token), ("namespace", NAMESPACE)):
        (tmp_path / name).write_text(text)
    (tmp_path / "ca.crt").write_bytes(plane.ca_file.read_bytes())
    host, _, port = plane.url.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(program, "ACCOUNT", str(tmp_path))
    monkeypatch.setattr(program, "RIGHTS_PATIENCE", 0.0)
    return job


def test_rank_0_writes_its_result_with_its_own_account(
    plane: ControlPlane, rank_0: muster.Job
) -> None:
    key = result_keys.find(rank_0.uid)
    assert key is not None
    secret = ResultSecret(f"{rank_0.name}-result", key.key, "pod-uid")
    secret.begin()
    told = {"outcome": "returned", "text": "…" * 1000}
    body = b"x" * secret.capacity(told)  # the largest that is promised
    secret.write(told, body)

    with BlockingClient(kube_config.load(plane.kubeconfig)) as client:
        data = client.get(SECRETS, Key(NAMESPACE, f"{rank_0.name}-result")).data
    opened = result.open_result(data, rank_0.uid, key)
    assert opened is not None
    header, found = opened
    assert (header["job"], header["pod"], found) == (rank_0.uid, "pod-uid", body)

    secret.begin()  # the next attempt

    with BlockingClient(kube_config.load(plane.kubeconfig)) as client:
        assert client.get(SECRETS, Key(NAMESPACE, f"{rank_0.name}-result")).data == {}


def test_rank_0_cannot_write_another_secret(rank_0: muster.Job) -> None:
    for name in (f"{rank_0.name}-function", "other"):
        with pytest.raises(NotWritten, match="forbidden"):
            ResultSecret(name, b"", "").begin()


def test_a_kubernetes_cluster_needs_an_image(plane: ControlPlane, tmp_path: Path) -> None:
    with pytest.raises(muster.UsageError, match=r"^image must be set"):
        muster.run(
            len, ("abc",), kind="jax", name="bare", kubeconfig=plane.kubeconfig,
            namespace=NAMESPACE,
        )  # fmt: skip
