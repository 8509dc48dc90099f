"""The grace period of a deleted pod, as on a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.core import Pod
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import MAX_SECONDS, Key
from kubekit.request_errors import Invalid, NotFound
from tests.controlplane.control_plane import ControlPlane
from tests.local_server import LocalServer

NAME = Key("default", "leaving")


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.kube)])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingClient]:
    if request.param == "kubernetes":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        with BlockingClient(kube_config.load(plane.kubeconfig)) as client:
            yield client
    else:
        with (
            LocalServer(tmp_path) as server,
            BlockingClient(kube_config.load(server.kubeconfig)) as one,
        ):
            yield one


def marked(client: BlockingClient, grace: int) -> Pod:
    client.delete(PODS, NAME, grace=grace)
    return client.get(PODS, NAME)


def test_a_shorter_grace_counts_from_the_first_deletion(client: BlockingClient) -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    client.create(PODS, {"metadata": {"name": NAME.name}, "spec": spec}, namespace="default")
    first = marked(client, 60).metadata.deletion_timestamp
    sooner = marked(client, 10).metadata
    longer = marked(client, 90).metadata
    client.delete(PODS, NAME, grace=0)

    assert first is not None
    assert sooner.deletion_timestamp == first - timedelta(seconds=50)
    assert sooner.deletion_grace_period_seconds == 10
    assert longer == sooner


ENDLESS = 10**18


def test_an_endless_grace_period_is_refused_with_its_reason(tmp_path: Path) -> None:
    container = {"name": "c", "image": "i"}
    probe = {"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": ENDLESS}
    bodies = {
        "spec.terminationGracePeriodSeconds": {
            "containers": [container],
            "terminationGracePeriodSeconds": ENDLESS,
        },
        "spec.containers[0].livenessProbe.terminationGracePeriodSeconds": {
            "containers": [container | {"livenessProbe": probe}]
        },
    }
    with (
        LocalServer(tmp_path) as server,
        BlockingClient(kube_config.load(server.kubeconfig)) as client,
    ):
        for field, spec in bodies.items():
            with pytest.raises(Invalid, match=re.escape(f"{field}: Invalid value: {ENDLESS}")):
                client.create(
                    PODS, {"metadata": {"name": NAME.name}, "spec": spec}, namespace="default"
                )
        spec = {"nodeName": "n", "containers": [container]}
        client.create(PODS, {"metadata": {"name": NAME.name}, "spec": spec}, namespace="default")
        with pytest.raises(Invalid, match="must be less than or equal to 2147483647"):
            client.delete(PODS, NAME, grace=ENDLESS)

        assert marked(client, MAX_SECONDS).metadata.deletion_grace_period_seconds == MAX_SECONDS
        client.delete(PODS, NAME, grace=0)
        with pytest.raises(NotFound):
            client.get(PODS, NAME)
