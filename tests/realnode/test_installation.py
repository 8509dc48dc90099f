"""Muster's image on a real node: `muster install` becomes ready, each component as its account.

kubelet, containerd, runc, kube-proxy and CoreDNS run beside a real control plane with RBAC. Results
are recorded in benchmarks/results/real-node.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.realnode.cluster import MUSTER, Cluster
from tests.realnode.images import MUSTER_IMAGE, Builder

pytestmark = [pytest.mark.slow, pytest.mark.long]
COMPONENTS = {"operator": 2, "scheduler": 2, "dashboard": 1}
"""The pods of each component."""


def test_the_image_runs_as_an_ordinary_user(builder: Builder, images: list[Path]) -> None:
    configuration = builder.configuration(MUSTER_IMAGE)

    assert configuration["User"] == "10001:10001"
    assert configuration["Entrypoint"] == ["/opt/muster/bin/muster"]


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_runs_in_its_pods_under_its_own_account(
    cluster: Cluster, component: str
) -> None:
    name = f"muster-{component}"
    pods = [pod for pod in cluster.objects("pods", MUSTER) if name in pod["metadata"]["name"]]

    assert [pod["spec"]["serviceAccountName"] for pod in pods] == [name] * COMPONENTS[component]
    assert all(pod["status"]["containerStatuses"][0]["ready"] for pod in pods)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_cannot_write_to_its_root_and_is_not_root(
    cluster: Cluster, component: str
) -> None:
    target = (f"--namespace={MUSTER}", f"deployment/muster-{component}")
    user = cluster.kubectl("exec", *target, "--", "id", "-u").strip()
    write = cluster.plane.kubectl("exec", *target, "--", "touch", "/opt/muster/file")

    assert user == "10001"
    assert "Read-only file system" in write.stderr


def test_doctor_finds_nothing_wrong(cluster: Cluster) -> None:
    assert "nothing is wrong" in cluster.muster("doctor")


def test_a_second_install_restarts_no_pod(cluster: Cluster) -> None:
    before = {pod["metadata"]["uid"] for pod in cluster.objects("pods", MUSTER)}

    cluster.muster("install", f"--image={MUSTER_IMAGE}", "--yes", "--timeout=10m")

    assert {pod["metadata"]["uid"] for pod in cluster.objects("pods", MUSTER)} == before
