"""Pages need exactly the rights that the dashboard declares."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kubekit.client.auth import kube_config
from kubekit.client.client import Client
from kubekit.errors import MusterError
from kubekit.objects.kinds import BATCH_JOBS, PODS
from kubekit.objects.meta import Raw, key_of
from kubekit.rights import Right, expand
from muster.client.models import model_runs, read_models, reader_job, runner_pod
from muster.contract.exported_models import MODEL_DIR, NPZ, Model, Version
from muster.contract.job_kinds import JOB_KINDS, TFJOBS
from muster.contract.waiting_line_format import CONFIG_MAP
from muster.install.objects import roles
from muster.jobs import names
from muster.web.access.gate import Policy
from muster.web.access.keys import new_token
from muster.web.app import make_app
from muster.web.cluster import watched_objects
from tests.audited_rights import Refusal, denied, requests_of, unused
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.muster.cli.conftest import teach
from tests.muster.web.objects import job

pytestmark = [pytest.mark.kube, pytest.mark.slow]
ACCOUNT = "system:serviceaccount:default:"
READER = f"{ACCOUNT}reader"
ROLES = {
    "reader": ("muster-dashboard",),
    "writer": ("muster-dashboard", "muster-dashboard-edit"),
}
JOB = "/jobs/default/TFJob/j"
PAGES = ("/", "/line", "/jobs", JOB, f"{JOB}/scalars", f"{JOB}/spec", f"{JOB}/yaml", "/history")
NOT_GRANTED = {
    Right("list", "", "configmaps"),
    Right("get", "", "configmaps"),
    Right("list", "logs.muster.dev", "podlogs"),  # a kind of the local cluster
}


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A cluster with a job that runs, and a reader of the dashboard."""
    with ControlPlane(control_plane_binaries, audit="Metadata") as plane:
        teach(plane.kubeconfig)
        _add(plane, TFJOBS.path("default"), job("j", state="Running"))
        labels = {
            "training.kubeflow.org/job-name": "j",
            "training.kubeflow.org/operator-name": "tfjob-controller",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "0",
        }
        spec = {"nodeName": "n0", "containers": [{"name": "tensorflow", "image": "i"}]}
        pod = {"metadata": {"name": "j-worker-0", "labels": labels}, "spec": spec}
        _add(plane, PODS.path("default"), pod)
        for name in ROLES:
            account = {"metadata": {"name": name}}
            _add(plane, "/api/v1/namespaces/default/serviceaccounts", account)
        for role in roles.dashboard_roles():
            _bind(plane, role)
        yield plane


def _bind(plane: ControlPlane, role: Raw) -> None:
    """Create a role, and bind it to the accounts that have it."""
    name, place = role["metadata"]["name"], role["metadata"].get("namespace")
    prefix = f"/apis/{roles.GROUP}/v1" + (f"/namespaces/{place}" if place else "")
    _add(plane, f"{prefix}/{role['kind'].lower()}s", role)
    accounts = [
        {"kind": "ServiceAccount", "name": account, "namespace": "default"}
        for account, names in ROLES.items()
        if name in names
    ]
    reference = {"apiGroup": roles.GROUP, "kind": role["kind"], "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": accounts}
    _add(plane, f"{prefix}/{role['kind'].lower()}bindings", binding)


def _add(plane: ControlPlane, path: str, body: Raw) -> None:
    status, answer = plane.request("POST", path, body)
    assert status == 201, answer


@asynccontextmanager
async def _user(
    plane: ControlPlane, name: str, folder: Path, policy: Policy
) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A browser that is logged in to a dashboard with the rights of a user."""
    token = plane.kubectl("create", "token", name, "-n", "default").stdout.strip()
    config = folder / "config"
    config.write_text(json.dumps(kubeconfig(plane.url, plane.authority.certificate, token=token)))
    app = make_app(kube_config.load(config), policy)
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        await client.get("/", params={"token": new_token(policy.keys)})
        yield client


async def test_pages_use_exactly_the_declared_rights(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_objects, "PATIENCE_SECONDS", 60.0)
    async with _user(plane, "reader", tmp_path, Policy(read_only=True)) as client:
        for page in PAGES:
            answer = await client.get(page, headers={"Accept": "text/html"})
            assert answer.status == 200, (page, await answer.text())
        await client.get(f"{JOB}/log")  # no kubelet has the log: only the right counts

    declared = roles.reader_rights()
    granted = set(expand((*declared.served, *declared.cluster, *declared.leases)))
    assert set(denied(plane, READER)) <= set(map(Refusal, NOT_GRANTED))
    # The log of one job was opened, which is a TFJob.
    others = {Right("get", kind.group, kind.plural) for kind in JOB_KINDS if kind != TFJOBS}
    # Curves are fetched by the scripts of a page, and commands get the line with the same role.
    others |= {Right("list", "metrics.k8s.io", "pods"), Right("get", "", "configmaps", CONFIG_MAP)}
    assert unused(granted - others, requests_of(plane, READER)) == []


async def test_changes_use_exactly_the_declared_rights(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_objects, "PATIENCE_SECONDS", 60.0)
    board = {"metadata": {"name": "board", "labels": {**names.TENSORBOARD_LABEL, "release": "j"}}}
    spec = {"nodeName": "n0", "containers": [{"name": "c", "image": "i"}]}
    _add(plane, PODS.path("default"), {**board, "spec": spec})
    running = {"status": {"phase": "Running"}}
    path = PODS.path("default", "board", subresource="status")
    plane.request("PUT", path, {**board, "spec": spec, **running})
    async with _user(plane, "writer", tmp_path, Policy()) as client:
        await _change_jobs(client, plane)
        await client.get(f"{JOB}/scalars")  # no kubelet leads to the pod: only the right counts
    async with Client.connect(kube_config.load(tmp_path / "config")) as client:
        await _use_models(client, plane)

    writer = f"{ACCOUNT}writer"
    # A kind of the local cluster.
    assert set(denied(plane, writer)) <= {Right("list", "logs.muster.dev", "podlogs")}
    granted = set(expand(roles.editor_rights().served))
    # The job that was changed is a TFJob.
    others = {
        Right(verb, kind.group, kind.plural)
        for kind in JOB_KINDS
        for verb in ("create", "patch", "delete")
        if kind != TFJOBS
    }
    # A websocket is a GET, which newer servers authorize as `create` too.
    others.add(Right("create", "", "pods/exec"))
    assert unused(granted - others, requests_of(plane, writer)) == []


async def _change_jobs(
    client: TestClient[web.Request, web.Application], plane: ControlPlane
) -> None:
    """Submit a job, suspend, resume and delete it, as the pages do."""
    page = await (await client.get("/history", headers={"Accept": "text/html"})).text()
    headers = {
        "Origin": str(client.make_url("/")).rstrip("/"),
        "X-CSRF-Token": page.partition('data-csrf="')[2].partition('"')[0],
    }

    async def post(path: str, **data: str) -> tuple[int, str]:
        answer = await client.post(path, data=data, headers=headers, allow_redirects=False)
        return answer.status, await answer.text()

    status, text = await post("/submit", type="tf", name="new", image="i", command="true")
    assert status == 200, text
    manifest = unescape(text.partition('<textarea name="manifest" hidden>')[2])
    manifest = manifest.partition("</textarea>")[0]
    status, text = await post("/submit", step="send", manifest=manifest, namespace="default")
    assert status == 303, text
    uid = plane.request("GET", TFJOBS.path("default", "new"))[1]["metadata"]["uid"]
    for action in ("suspend", "resume", "delete"):
        status, text = await post("/jobs/default/TFJob/new", action=action, uid=uid)
        assert status == 303, text


async def _use_models(client: Client, plane: ControlPlane) -> None:
    """Read, try and download models, up to the point at which a pod would have to run."""
    made = job("exports")
    made["metadata"]["annotations"] = {MODEL_DIR: "/models/x"}
    spec = made["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    spec["volumes"] = [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "models", "mountPath": "/models"}]
    _, made = plane.request("POST", TFJOBS.path("default"), made)
    place = reader_job.find_place(made)
    async with read_models._started(client, place, "default", "muster:1") as reader:
        assert plane.request("GET", BATCH_JOBS.path(*key_of(reader)))[0] == 200
    version = Version("1", "1", NPZ, datetime.now(UTC))
    for versions in ((version,), (version,), ()):
        model = read_models._with_maker(Model(versions=versions), place, made)
        published = await read_models._publish(client, model, "default")
    async with model_runs._running(client, published, ["true"], 1) as pod:
        await client.get(PODS, pod)
        with suppress(MusterError):
            async with client.exec(pod, ["true"], container=runner_pod.CONTAINER):
                pass
