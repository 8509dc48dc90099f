"""Pages need exactly the rights that the dashboard declares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from muster.api.kinds import JOB_KINDS, PODS, TFJOBS
from muster.api.meta import Raw
from muster.deploy import dashboard_rights, roles
from muster.kube.auth import kube_config
from muster.rights import Right, expand
from muster.web.access.gate import Policy
from muster.web.access.keys import new_token
from muster.web.app import make_app
from muster.web.cluster import first_list
from tests.cli.conftest import teach
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.operator.rbac import requests_of
from tests.web.objects import job

pytestmark = [pytest.mark.kube, pytest.mark.slow]
READER = "system:serviceaccount:default:reader"
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
        _add(plane, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})
        account = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
        for role in roles.dashboard_roles():
            path = roles.GROUP + "/v1"
            place = role["metadata"].get("namespace")
            prefix = f"/apis/{path}" + (f"/namespaces/{place}" if place else "")
            _add(plane, f"{prefix}/{role['kind'].lower()}s", role)
            name = role["metadata"]["name"]
            reference = {"apiGroup": roles.GROUP, "kind": role["kind"], "name": name}
            binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [account]}
            _add(plane, f"{prefix}/{role['kind'].lower()}bindings", binding)
        yield plane


def _add(plane: ControlPlane, path: str, body: Raw) -> None:
    status, answer = plane.request("POST", path, body)
    assert status == 201, answer


async def test_pages_use_exactly_the_declared_rights(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_list, "PATIENCE_SECONDS", 60.0)
    token = plane.kubectl("create", "token", "reader", "-n", "default").stdout.strip()
    config = tmp_path / "config"
    config.write_text(json.dumps(kubeconfig(plane.url, plane.authority.certificate, token=token)))
    policy = Policy(read_only=True)
    app = make_app(kube_config.load(config), policy)
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        await client.get("/", params={"token": new_token(policy.keys)})
        for page in PAGES:
            answer = await client.get(page, headers={"Accept": "text/html"})
            assert answer.status == 200, (page, await answer.text())
        await client.get(f"{JOB}/log")  # no kubelet has the log: only the right counts

    requests = requests_of(plane, READER)
    declared = dashboard_rights.rights()
    rules = (*declared.served, *declared.cluster, *declared.leases)
    granted = {replace(right, name="") for right in expand(rules)}
    refused = {right for right, code, _ in requests if code == 403}
    assert refused <= NOT_GRANTED
    used = {right for right, _, _ in requests}
    # The log of one job was opened, which is a TFJob.
    others = {Right("get", kind.group, kind.plural) for kind in JOB_KINDS if kind != TFJOBS}
    # Curves are fetched by the scripts of a page.
    others.add(Right("list", "metrics.k8s.io", "pods"))
    assert sorted(granted - used - others) == []
