"""A model in a volume appears through a small pod: by the command, and in a pod's dashboard."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientSession, CookieJar

from kubekit.client import request
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import BATCH_JOBS, CONFIG_MAPS, PODS, SERVICE_ACCOUNTS, Kind
from kubekit.objects.meta import Key, Raw
from tests.e2e.local_cluster import LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow

MODEL = Key("default", "model-tfjob-mnist")
CLAIM: Raw = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "models"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
TRAIN = """
import json, os, struct
os.makedirs("/models/mnist/draft")
head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
with open("/models/mnist/draft/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(head)) + head + bytes(4))
os.rename("/models/mnist/draft", "/models/mnist/1")
"""
RULES = [
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["list", "watch", "create", "patch"],
    },
]
RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with a job that has written a model into a claim, and ended."""
    folder = tmp_path_factory.mktemp("model-reader")
    (folder / "train.py").write_text(TRAIN)
    cluster = LocalCluster(folder / "home")
    cluster.arena("up", "--detach", "--nodes", "1", "--no-dashboard", cwd=folder)
    cluster.apply(CLAIM)
    words = ("--data", "models:/models", "--model-dir", "/models/mnist")
    cluster.submit("mnist", *words, command=f"{sys.executable} {folder / 'train.py'}")
    cluster.wait_job("mnist", "SUCCEEDED")
    yield cluster
    cluster.down()


@pytest.fixture
def api(local: LocalCluster) -> Iterator[BlockingClient]:
    """The models of the job are not listed: elsewhere no node does that."""
    with local.client() as client:
        until(lambda: client.find(CONFIG_MAPS, MODEL), what="the node lists the model")
        client.delete(CONFIG_MAPS, MODEL)
        yield client
        until(lambda: not readers(client), what="no reader is left")


def readers(client: BlockingClient) -> list[str]:
    labels = "muster.dev/model-reader"
    found = [row.metadata.name for row in client.list(PODS, labels=labels).items]
    return found + [row["metadata"]["name"] for row in client.list(BATCH_JOBS, labels=labels).items]


def test_the_command_reads_the_volume_and_lists_the_model(
    local: LocalCluster, api: BlockingClient
) -> None:
    assert "mnist" not in local.arena("models").stdout

    assert "safetensors" in local.arena("models", "read", "mnist").stdout

    assert re.search(r"mnist +1 +safetensors", local.arena("models").stdout)
    assert '"float32"' in local.arena("models", "-o", "json").stdout


def test_ctrl_c_removes_the_reader(local: LocalCluster, api: BlockingClient) -> None:
    process = local.start("models", "read", "mnist")
    until(lambda: readers(api), every=0.02, what="the reader is there")

    process.send_signal(signal.SIGINT)

    process.communicate(timeout=30)
    assert process.returncode == 130
    until(lambda: not readers(api), what="the reader is gone")
    local.arena("models", "read", "mnist")  # for the next test


def test_a_directory_that_is_missing_leaves_the_list_as_it_is(
    local: LocalCluster, api: BlockingClient
) -> None:
    local.arena("models", "read", "mnist")
    body = {"metadata": {"annotations": {"muster.dev/model-dir": "/models/nothing"}}}
    kind: Kind[Raw] = Kind.of("kubeflow.org/v1", "TFJob", dict)
    api.patch(kind, Key("default", "mnist"), body)
    try:
        result = local.arena("models", "read", "mnist", check=False)
        assert result.returncode == 1
        assert "there is no directory nothing in the volume" in result.stderr
        assert api.find(CONFIG_MAPS, MODEL) is not None
    finally:
        body["metadata"]["annotations"]["muster.dev/model-dir"] = "/models/mnist"
        api.patch(kind, Key("default", "mnist"), body)
    local.arena("models", "read", "mnist")


def member(api: BlockingClient) -> str:
    """The token of a user with a Role in one namespace."""
    name = {"metadata": {"name": "member"}}
    subject = {"kind": "ServiceAccount", "name": "member", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "member"}
    api.create(SERVICE_ACCOUNTS, name, namespace="default")
    api.create(Kind.of(RBAC, "Role", dict), {**name, "rules": RULES}, namespace="default")
    binding = {**name, "roleRef": role, "subjects": [subject]}
    api.create(Kind.of(RBAC, "RoleBinding", dict), binding, namespace="default")
    call = request.create(
        SERVICE_ACCOUNTS, {"spec": {}}, namespace="default", subresource="token", name="member"
    )
    return str(msgspec.json.decode(api.send(call).body)["status"]["token"])


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def dashboard(local: LocalCluster) -> Iterator[str]:
    """`muster dashboard` as in a pod."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("muster")), "dashboard", "--in-cluster"]
    flags = [f"--port={port}", "--reader-image=muster", f"--kubeconfig={local.home}/kubeconfig"]
    process = subprocess.Popen([*command, *flags], env=local.env)
    until(lambda: answers(port), what="the dashboard answers")
    try:
        yield f"http://localhost:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


async def test_the_dashboard_of_a_pod_reads_the_volume_with_the_rights_of_its_user(
    local: LocalCluster, api: BlockingClient
) -> None:
    token = member(api)
    with dashboard(local) as url:
        headers = {"Accept": "text/html", "Origin": url}
        async with ClientSession(url, cookie_jar=CookieJar(unsafe=True), headers=headers) as user:
            answer = await user.post("/sign-in", data={"token": token, "page": "/models"})
            page = await answer.text()
            assert answer.status == 200, page
            csrf = re.findall(r'name="csrf" value="([^"]+)"', page)[0]
            job = {"namespace": "default", "kind": "TFJob", "name": "mnist"}

            answer = await user.post("/models", data={**job, "csrf": csrf})

            assert (answer.status, answer.url.path) == (200, "/models"), await answer.text()
            page = await (await user.get(f"/models/default/{MODEL.name}")).text()
            assert "safetensors" in page

            answer = await user.post("/models", data={**job, "name": "other", "csrf": csrf})
            assert answer.status == 404
