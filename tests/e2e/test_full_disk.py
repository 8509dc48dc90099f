"""A pod that fills the disk of the cluster: deleting works, and `down` leaves nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import CONFIG_MAPS, NAMESPACES, PODS, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import NotFound, ServerError
from tests.builders import container, pod
from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import LocalCluster
from tests.small_disk import fill, small_disk
from tests.waiting import until

pytestmark = pytest.mark.slow

# It takes every block that anything else frees.
GREEDY = "while true; do cat /dev/zero >> /scratch/file 2>/dev/null; done"


def scratching(name: str, command: str) -> Raw:
    """A pod with a scratch volume that runs a command once."""
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    return pod(
        name,
        container(image="python:3.12", command=["sh", "-c", command], volumeMounts=mounts),
        restartPolicy="Never",
        terminationGracePeriodSeconds=1,
        volumes=[{"name": "scratch", "emptyDir": {}}],
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "64m") as folder:
        yield folder
        LocalCluster(folder / "home").arena("down", "--now", check=False)


def free_blocks(disk: Path) -> int:
    return os.statvfs(disk).f_bavail


def is_refused(client: BlockingClient, filler: Path) -> bool:
    """Fill the disk, also where files of an evicted pod were deleted since, and create a pod."""
    fill(filler)
    new = scratching("new", "true")
    try:
        client.create(PODS, new, namespace="default")
    except ServerError as error:
        return "disk of the local cluster is full" in str(error)
    client.delete(PODS, Key("default", "new"), grace=0)
    return False


def test_deletions_and_down_work_while_a_pod_keeps_the_disk_full(disk: Path) -> None:
    local, before = LocalCluster(disk / "home"), Footprint.now()
    filler = disk / "by-somebody-else"
    local.up()
    waits = "until test -e /scratch/end; do sleep 0.1; done; exit 3"
    local.apply(
        scratching("ends", waits),
        *(scratching(name, "sleep 1000") for name in ("quiet", "quieter")),
    )
    local.apply(*crowd("crowd", 100), large_map("held"))
    local.submit("job", "--workers=1", command="sleep 1000")
    with BlockingClient(kube_config.load(local.home / "kubeconfig")) as client:
        until(lambda: all(p.status.phase == "Running" for p in client.list(PODS).items))
        local.apply(scratching("greedy", GREEDY))
        until(lambda: free_blocks(disk) == 0, what="a full disk")
        uid = client.get(PODS, Key("default", "ends")).metadata.uid
        (local.home / "data" / "pods" / uid / "volumes" / "scratch" / "end").touch()

        client.delete(PODS, Key("default", "quiet"))
        until(lambda: gone(client, "quiet"), what="the deletion")
        until(lambda: is_evicted(client, "greedy"), what="the eviction")
        until(lambda: is_refused(client, filler), what="the refusal on a disk that is full again")
        ended = until(lambda: end_of(client, "ends"), what="the end of a pod")
        assert ended.exit_code == 3
        updates_leave_space_for_deletions(local, client, filler)

    down = local.arena("down")

    assert "local cluster is down" in down.stderr
    assert Footprint.now().beyond(before, local.home) == []
    print((local.home / "daemon.log").read_text())
    local.up()
    with BlockingClient(kube_config.load(local.home / "kubeconfig")) as client:
        client.delete(PODS, Key("default", "greedy"))
        filler.unlink()
        until(lambda: free_blocks(disk) * 4096 > 32 << 20, what="the freed disk")
    local.down()
    fill(filler)
    refused_up = local.arena("up", "--detach", check=False)
    assert refused_up.returncode == 1
    assert "is full" in refused_up.stderr
    assert "bug" not in (local.home / "daemon.log").read_text()
    assert Footprint.now().beyond(before, local.home) == []


def is_evicted(client: BlockingClient, name: str) -> bool:
    """Whether the pod is evicted and its programs have ended, so that its files are deleted."""
    status = client.get(PODS, Key("default", name)).status
    rows = status.container_statuses
    return status.phase == "Failed" and all(row.state.terminated for row in rows)


def crowd(namespace: str, count: int) -> list[Raw]:
    """A namespace with many objects."""
    names = [{"name": f"map-{number}", "namespace": namespace} for number in range(count)]
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": name} for name in names]
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, *maps]


def large_map(name: str) -> Raw:
    """An object of almost the largest size, with a finalizer."""
    metadata = {"name": name, "finalizers": ["example.com/hold"]}
    data = {"text": "x" * 1_000_000}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def updates_leave_space_for_deletions(
    local: LocalCluster, client: BlockingClient, filler: Path
) -> None:
    """An attacker's updates use up the reserve of the store, but not the part for deletions."""
    answers = []
    changes = [("quieter", 200_000 + 100 * number) for number in range(400)]
    changes += [("ends", 5_000 * number) for number in range(1, 50)]
    for name, length in changes:
        fill(filler)  # also when the greedy pod is evicted
        answers.append(patched(client, name, length))
    full = "the disk of the local cluster is full"
    assert [answer for answer in answers if answer and full not in answer] == []

    client.delete(PODS, Key("default", "quieter"))
    until(lambda: gone(client, "quieter"), what="the graceful deletion of the large pod")
    client.delete(PODS, Key("default", "ends"), grace=0)
    assert gone(client, "ends")
    client.delete(CONFIG_MAPS, Key("default", "held"))
    client.patch(CONFIG_MAPS, Key("default", "held"), {"metadata": {"finalizers": None}})
    assert gone(client, "held", CONFIG_MAPS)
    client.delete(NAMESPACES, Key("", "crowd"))
    until(lambda: gone(client, "crowd", NAMESPACES), what="the deletion of the namespace")
    local.arena("delete", "job")
    until(lambda: len(client.list(PODS).items) == 1, what="the end of the job's pods")


def patched(client: BlockingClient, name: str, length: int) -> str:
    """Give a pod a long annotation; returns the error."""
    body = {"metadata": {"annotations": {"example.com/text": "x" * length}}}
    try:
        client.patch(PODS, Key("default", name), body)
    except ServerError as error:
        return str(error)
    return ""


def gone(client: BlockingClient, name: str, kind: Kind[Any] = PODS) -> bool:
    try:
        client.get(kind, Key("" if kind is NAMESPACES else "default", name))
    except NotFound:
        return True
    return False


def end_of(client: BlockingClient, name: str) -> Any:
    statuses = client.get(PODS, Key("default", name)).status.container_statuses
    return statuses[0].state.terminated if statuses else None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount what `down` cannot remove")
def test_down_kills_strays_and_says_what_it_cannot_remove(tmp_path: Path) -> None:
    local = LocalCluster(tmp_path)
    local.up()
    folder = tmp_path / "data" / "pods" / "stray"
    stray = subprocess.Popen(["sleep", "1000"], env={"MUSTER_POD": str(folder), "PATH": os.defpath})
    with small_disk(tmp_path / "data" / "mounted", "1m"):
        failed = local.arena("down", check=False)

        assert failed.returncode == 1
        assert "this is left of it: 1 mount" in failed.stderr
        assert str(tmp_path / "data" / "mounted") in failed.stderr
        assert "is down" not in failed.stderr
        assert stray.wait(10) == -9
    assert local.arena("down").returncode == 0
