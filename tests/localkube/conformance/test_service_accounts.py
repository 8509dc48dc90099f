"""New pods get their service account and its token as on a real server."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from tests.controlplane.control_plane import ControlPlane
from tests.localkube.conformance.cases.steps import NS, PODS, delete, get, pod, post
from tests.localkube.conformance.conftest import InThread, Running
from tests.localkube.conformance.normalization import normalized
from tests.localkube.conformance.transcript import Case, play
from tests.side_by_side import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kube

ACCOUNTS = f"{NS}/serviceaccounts"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME = {"name": "v", "emptyDir": {}}
OWN_MOUNT = {"name": "main", "image": "busybox:1",
             "volumeMounts": [{"name": "v", "mountPath": TOKEN}]}  # fmt: skip
OTHER = {"name": "other", "image": "busybox:1"}


def account(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


STEPS = [
    # A real server without controllers has no default account, ours has: not compared.
    post(ACCOUNTS, account("default")),
    post(PODS, pod("none", {"serviceAccountName": "none"})),
    post(
        PODS,
        {
            **pod(),
            "metadata": {"generateName": "g-"},
            "spec": {**pod()["spec"], "serviceAccount": "none"},
        },
    ),
    post(PODS, pod("a")),
    post(PODS, pod("b", {"automountServiceAccountToken": False})),
    post(PODS, pod("c", {"initContainers": [OTHER]})),
    post(PODS, pod("d", {"containers": [OWN_MOUNT], "volumes": [VOLUME]})),
    post(PODS, pod("e", {"containers": [OWN_MOUNT, OTHER], "volumes": [VOLUME]})),
    post(
        ACCOUNTS,
        account("quiet", automountServiceAccountToken=False, imagePullSecrets=[{"name": "s"}]),
    ),
    post(PODS, pod("f", {"serviceAccountName": "quiet"})),
    post(
        PODS,
        pod(
            "g",
            {
                "serviceAccountName": "quiet",
                "automountServiceAccountToken": True,
                "imagePullSecrets": [{"name": "own"}],
            },
        ),
    ),
    delete(f"{PODS}/a"),
    get(f"{PODS}?fieldSelector=spec.serviceAccountName=quiet"),
]


@pytest.fixture(scope="module")
def servers(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, Running]]:
    """The real server and ours, both with the admission of service accounts."""
    with (
        ControlPlane(control_plane_binaries, default_admission=True) as plane,
        InThread(tmp_path_factory.mktemp("apiserver"), admit_service_accounts=True) as host,
    ):
        certificate = plane.authority.certificate
        yield Running(plane.url, plane.token, certificate, plane.kubeconfig), host.running


def test_pods_get_the_same_from_their_account(servers: tuple[Running, Running]) -> None:
    name, case = f"case-{secrets.token_hex(4)}", Case("accounts", STEPS)

    expected, actual = side_by_side(
        lambda server: _named(normalized(play(server, case, name), case, name)), *servers
    )

    for step, want, got in list(zip(case.steps, expected, actual, strict=True))[1:]:
        assert got == want, f"{step.method} {step.path}"


def _named(replies: list[Any]) -> Any:
    """The answers without the generated ends of volume names."""
    return json.loads(re.sub(r"(?<=kube-api-access-)[a-z0-9]{5}", "<suffix>", json.dumps(replies)))
