"""The dashboard of an installation on a real kube-apiserver with RBAC: it acts as its users.

The process has the address and the certificate authority of the API server, as its pod has, and no
credentials. Users are service accounts of another namespace, with Roles in one namespace each.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import ClientSession, CookieJar

from kubekit.client.auth.endpoint import in_cluster_without_token
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import PODS
from muster.cli import main
from muster.client.models.reader_job import find_place, reader_job
from muster.contract.exported_models import MODEL_DIR
from muster.contract.job_kinds import TFJOBS
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.muster.web.objects import job
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow]
NAMESPACES = ("people", "team-a", "team-b")
GRANTS = {"viewer": ("view",), "editor": ("edit",), "nobody": ()}
"""Kubernetes' own roles that each user has in team-a."""


class Installed(NamedTuple):
    plane: ControlPlane
    port: int
    metrics: int

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def token(self, name: str) -> str:
        return self.plane.kubectl("create", "token", name, "-n", "people").stdout.strip()

    @asynccontextmanager
    async def signed_in(self, name: str, namespaces: str = "team-a") -> AsyncIterator[Reader]:
        headers = {"Accept": "text/html", "Origin": self.url}
        jar = CookieJar(unsafe=True)
        async with ClientSession(self.url, cookie_jar=jar, headers=headers) as session:
            data = {"token": self.token(name), "namespaces": namespaces, "page": "/healthz"}
            answer = await session.post("/sign-in", data=data)
            assert answer.status == 200, await answer.text()
            yield Reader(session)


class Reader(NamedTuple):
    """A browser that is signed in."""

    session: ClientSession

    async def get(self, path: str) -> tuple[int, str]:
        """The status and text of a page, as soon as its objects are there."""
        while True:
            answer = await self.session.get(path)
            if "Refresh" not in answer.headers:
                return answer.status, unescape(await answer.text())

    async def change(self, path: str, action: str, uid: str) -> tuple[int, str]:
        _, page = await self.get("/history")
        csrf = re.findall(r'data-csrf="([^"]+)"', page)[0]
        data = {"action": action, "uid": uid, "csrf": csrf}
        answer = await self.session.post(path, data=data, allow_redirects=False)
        return answer.status, unescape(await answer.text())


@pytest.fixture(scope="module")
def installed(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("in-cluster")
    with ControlPlane(control_plane_binaries, audit="Metadata") as plane:
        plane.start_controller_manager()  # it aggregates roles
        words = ["--kubeconfig", str(plane.kubeconfig), "--image", "registry.example.com/m:1"]
        assert main.run("muster", ["install", *words, "--yes", "--no-wait"]) == 0
        for name in NAMESPACES:
            plane.kubectl("create", "namespace", name)
        for name, roles in GRANTS.items():
            plane.kubectl("create", "serviceaccount", name, "-n", "people")
            for role in roles:
                grant = (f"--clusterrole={role}", f"--serviceaccount=people:{name}")
                plane.kubectl("create", "rolebinding", f"{name}-{role}", "-n", "team-a", *grant)
        for name, verb in (("viewer", "list"), ("editor", "delete")):
            until(partial(_may, plane, name, verb), what="the roles are aggregated")
        config = folder / "config"
        config.write_text(json.dumps(kubeconfig(plane.url, plane.authority.certificate)))
        ports = [_free_port() for _ in range(2)]
        with _running(config, *ports):
            yield Installed(plane, *ports)


def _may(plane: ControlPlane, name: str, verb: str) -> bool:
    group, plural = TFJOBS.group, TFJOBS.plural
    wish = {"namespace": "team-a", "verb": verb, "group": group, "resource": plural}
    spec = {"user": f"system:serviceaccount:people:{name}", "resourceAttributes": wish}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    _, answer = plane.request("POST", path, {"spec": spec})
    return bool(answer["status"]["allowed"])


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _running(config: Path, port: int, metrics: int) -> _Process:
    command = [str(Path(sys.executable).with_name("muster")), "dashboard", "--in-cluster"]
    flags = [f"--kubeconfig={config}", f"--port={port}", f"--metrics-port={metrics}"]
    return _Process(subprocess.Popen([*command, *flags, "--log-format=json"]), metrics)


class _Process:
    def __init__(self, process: subprocess.Popen[bytes], metrics: int) -> None:
        self._process, self._metrics = process, metrics

    def __enter__(self) -> None:
        until(self._is_ready, what="the dashboard is ready")

    def _is_ready(self) -> bool:
        assert self._process.poll() is None
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", self._metrics)):
                return False
            client.sendall(b"GET /readyz HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")
            return client.recv(100).startswith(b"HTTP/1.1 200")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(30) == 0


@pytest.fixture
def jobs(installed: Installed, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The UID of a job in each namespace, by the name of the namespace."""
    uids = {}
    for namespace in ("team-a", "team-b"):
        made = job(f"of-{namespace}", namespace=namespace)
        status, answer = installed.plane.request("POST", TFJOBS.path(namespace), made)
        assert status == 201, answer
        uids[namespace] = answer["metadata"]["uid"]
    yield uids
    for namespace in uids:
        installed.plane.request("DELETE", TFJOBS.path(namespace, f"of-{namespace}"))


def page_of(namespace: str) -> str:
    return f"/jobs/{namespace}/TFJob/of-{namespace}"


def rule(verb: str) -> str:
    return f'add the rule {{apiGroups: ["kubeflow.org"], resources: [tfjobs], verbs: [{verb}]}}'


async def test_a_reader_sees_the_own_namespace_alone_and_changes_nothing(
    installed: Installed, jobs: dict[str, str]
) -> None:
    async with installed.signed_in("viewer", "team-a, team-b") as reader:
        status, page = await reader.get("/jobs")
        assert status == 200, page
        assert "of-team-a" in page
        assert "of-team-b" not in page
        assert "Shown: namespace team-a only" in page
        assert (await reader.get(page_of("team-a")))[0] == 200
        assert (await reader.get(page_of("team-b")))[0] == 404

        for action, verb in (("suspend", "patch"), ("delete", "delete")):
            status, page = await reader.change(page_of("team-a"), action, jobs["team-a"])
            assert status == 403
            assert f"may not {verb} tfjobs.kubeflow.org" in page
            assert rule(verb) in page
    found = installed.plane.request("GET", TFJOBS.path("team-a", "of-team-a"))[1]
    assert found["metadata"]["uid"] == jobs["team-a"]


async def test_whoever_may_edit_a_namespace_suspends_and_deletes_there_alone(
    installed: Installed, jobs: dict[str, str]
) -> None:
    path = TFJOBS.path("team-a", "of-team-a")
    async with installed.signed_in("editor") as editor:
        assert (await editor.change(page_of("team-a"), "suspend", jobs["team-a"]))[0] == 303
        assert installed.plane.request("GET", path)[1]["spec"]["runPolicy"]["suspend"] is True

        assert (await editor.change(page_of("team-b"), "delete", jobs["team-b"]))[0] == 404
        assert (await editor.change(page_of("team-a"), "delete", jobs["team-a"]))[0] == 303
    assert installed.plane.request("GET", path)[0] == 404
    assert installed.plane.request("GET", TFJOBS.path("team-b", "of-team-b"))[0] == 200


async def test_a_user_without_rights_reads_the_smallest_fix(
    installed: Installed, jobs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with installed.signed_in("nobody") as user:
        status, page = await user.get("/jobs")

    assert status == 403
    assert "may not list tfjobs.kubeflow.org" in page
    fix = (
        'add the rule {apiGroups: ["kubeflow.org"], resources: [tfjobs, mpijobs, pytorchjobs, '
        "jaxjobs], verbs: [list, watch]}"
    )
    assert fix in page
    config = tmp_path / "config"
    plane = installed.plane
    token = installed.token("nobody")
    config.write_text(json.dumps(kubeconfig(plane.url, plane.authority.certificate, token=token)))
    main.run("muster", ["doctor", "--kubeconfig", str(config), "-n", "team-a"])
    doctor = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert fix.partition("verbs")[0] in doctor  # for commands, doctor names more verbs


async def test_every_request_is_made_by_a_user_and_none_by_the_dashboard(
    installed: Installed, jobs: dict[str, str]
) -> None:
    async with installed.signed_in("viewer") as reader:
        await reader.get("/")

    rows = [json.loads(line) for line in installed.plane.audit_log.read_text().splitlines()]
    own = [row for row in rows if row.get("userAgent", "").startswith("muster-dashboard")]
    users = {row["user"]["username"] for row in own}
    assert "system:serviceaccount:people:viewer" in users
    assert users <= {f"system:serviceaccount:people:{name}" for name in GRANTS}
    account = "system:serviceaccount:muster:muster-dashboard"
    assert [row for row in rows if row["user"]["username"] == account] == []


@pytest.mark.parametrize("path", ["/", "/jobs", "/stream", page_of("team-a")])
async def test_without_a_token_nothing_is_shown(installed: Installed, path: str) -> None:
    async with ClientSession(installed.url, headers={"Accept": "text/html"}) as stranger:
        answer = await stranger.get(path)

        assert answer.status == 401
        assert 'name="token"' in await answer.text()


async def test_strangers_and_many_headers_of_one_token_lock_nobody_out(
    installed: Installed, jobs: dict[str, str]
) -> None:
    """The API server reads two spaces as no token, and nothing behind a second space."""
    token = installed.token("viewer")
    accepted = set()
    async with ClientSession(installed.url) as stranger:
        for number in range(70):  # more than there is room for
            for text in (f"Bearer  x{number}", f"Bearer {token} junk{number}"):
                answer = await stranger.get("/jobs", headers={"Authorization": text})
                accepted.add(answer.status)

    assert accepted == {400}
    async with installed.signed_in("editor") as editor:
        assert (await editor.get("/jobs"))[0] == 200


async def test_one_user_with_many_sessions_locks_nobody_out(
    installed: Installed, jobs: dict[str, str]
) -> None:
    async with AsyncExitStack() as stack:
        for number in range(70):
            names = f"team-a, n{number}"
            reader = await stack.enter_async_context(installed.signed_in("viewer", names))
            assert (await reader.get("/jobs"))[0] in (200, 429)

        editor = await stack.enter_async_context(installed.signed_in("editor"))
        assert (await editor.get("/jobs"))[0] == 200


def test_the_reader_of_a_model_is_accepted_where_pods_are_restricted(
    installed: Installed, jobs: dict[str, str]
) -> None:
    made = job("exports", namespace="team-a")
    made["metadata"]["annotations"] = {MODEL_DIR: "/models/x"}
    spec = made["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    spec["volumes"] = [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "models", "mountPath": "/models"}]
    beside = {"spec": {"nodeName": "n0"}}
    body = reader_job(find_place(made), "team-a", "registry.example.com/m:1", beside)
    label = "pod-security.kubernetes.io/enforce=restricted"
    installed.plane.kubectl("label", "--overwrite", "namespace", "team-a", label)
    pod = {"metadata": {"name": "reader"}, "spec": body["spec"]["template"]["spec"]}

    for path, item in (("/apis/batch/v1/namespaces/team-a/jobs", body), (PODS.path("team-a"), pod)):
        status, answer = installed.plane.request("POST", f"{path}?dryRun=All", item)
        assert status == 201, answer


def test_a_pod_without_a_token_knows_the_api_server(installed: Installed, tmp_path: Path) -> None:
    """With the files and variables that the kubelet gives to the dashboard's pod."""
    host, port = installed.plane.url.removeprefix("https://").split(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    (tmp_path / "ca.crt").write_bytes(installed.plane.authority.certificate)

    endpoint = in_cluster_without_token(environ, tmp_path)

    assert endpoint is not None
    assert endpoint.credentials.get().authorization == ""
    with BlockingClient(endpoint) as client, pytest.raises(Exception, match="may not list pods"):
        client.list(PODS)
    assert in_cluster_without_token({}, tmp_path) is None


def test_the_objects_of_the_installation_give_the_dashboard_no_right(
    installed: Installed,
) -> None:
    account = "system:serviceaccount:muster:muster-dashboard"
    words = ("auth", "can-i", "--list", f"--as={account}", "-n", "team-a")
    listed = installed.plane.kubectl(*words).stdout

    assert "tfjobs" not in listed
    assert not re.search(r"^(pods|secrets|configmaps|nodes)", listed, re.MULTILINE)
