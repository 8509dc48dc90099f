"""Pods that use too much disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.objects.enforced_limits import is_over_own_limit
from localkube.node.eviction import Disk, DiskUsage, disk_usage, over_limit
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import local_node, needs_namespaces
from tests.localkube.node.pod_builders import Raw, container, make_pod, manifest

MIB = 1 << 20
# Deaf to SIGTERM; it writes to its volume and its private /tmp as long as there is room.
FILL = """
trap '' TERM
while :; do head -c 500000 /dev/zero | tee -a /v/big >> /tmp/big; sleep 0.01; done 2>/dev/null
"""
ROOMY = Disk(size=10_000 * MIB, free=8000 * MIB)


def limited(limit: str, name: str = "main") -> Raw:
    return container(name, resources={"limits": {"ephemeral-storage": limit}})


def volume(name: str, **source: str) -> Raw:
    return {"name": name, "emptyDir": source}


def test_an_empty_dir_over_its_size_limit_evicts_its_pod() -> None:
    volumes = [volume("free"), volume("small", sizeLimit="1Mi")]
    volumes.append(volume("quick", sizeLimit="1Mi", medium="Memory"))
    pod = make_pod(volumes=volumes)
    both = DiskUsage(volumes={"free": 2 * MIB, "small": 2 * MIB, "quick": 2 * MIB})

    assert over_limit(pod, both, ROOMY) == (
        'Usage of EmptyDir volume "small" exceeds the limit "1Mi".'
    )
    others = DiskUsage(volumes={"free": 2 * MIB, "small": MIB, "quick": 2 * MIB})
    assert over_limit(pod, others, ROOMY) == ""


def test_the_limits_of_all_containers_limit_the_whole_pod() -> None:
    pod = make_pod("p", limited("2Mi"), limited("1Mi", "side"))
    within = DiskUsage({"v": 2 * MIB}, {"main": MIB // 2}, MIB // 2)
    beyond = DiskUsage({"v": 2 * MIB}, {"main": MIB}, MIB)

    assert over_limit(pod, within, ROOMY) == ""
    assert over_limit(pod, beyond, ROOMY) == (
        "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi."
    )


def test_the_limit_of_a_container_counts_its_own_files_and_logs() -> None:
    pod = make_pod("p", limited("2Mi"), limited("1Mi", "side"))

    assert over_limit(pod, DiskUsage({}, {"main": MIB, "side": MIB + 1}), ROOMY) == (
        'Container side exceeded its local ephemeral storage limit "1Mi".'
    )


def test_the_limit_of_an_init_container_limits_only_itself() -> None:
    pod = make_pod("p", container(), initContainers=[limited("1Mi", "first")])

    assert over_limit(pod, DiskUsage({}, {"main": 2 * MIB, "first": MIB}), ROOMY) == ""
    assert over_limit(pod, DiskUsage({}, {"first": 2 * MIB}), ROOMY) == (
        'Container first exceeded its local ephemeral storage limit "1Mi".'
    )


def test_a_pod_without_a_limit_may_use_as_much_as_it_leaves_free() -> None:
    usage = DiskUsage({"v": 60 * MIB}, {"main": 40 * MIB})
    disk = Disk(size=500 * MIB, free=99 * MIB)

    assert over_limit(make_pod(), usage, disk._replace(free=100 * MIB)) == ""
    assert over_limit(make_pod(), usage, disk) == (
        "Pod ephemeral local storage usage exceeds the default limit: it uses 100Mi and leaves"
        " 99Mi of the disk free. Set resources.limits.ephemeral-storage to allow it more, or write"
        " to a directory of your own."
    )
    assert over_limit(make_pod("p", limited("1Gi")), usage, disk) == ""
    own = [volume("v", sizeLimit="80Mi")]
    assert over_limit(make_pod(volumes=own), usage, disk) == ""


def test_a_disk_that_is_full_for_other_reasons_evicts_no_small_pod() -> None:
    assert over_limit(make_pod(), DiskUsage({"v": 5 * MIB}), Disk(500 * MIB, 0)) == ""


def test_only_evictions_for_the_own_usage_are_the_pods_failure() -> None:
    pressure = (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 1, available: 0."
    )
    usage = DiskUsage({"v": 2 * MIB}, {"main": 2 * MIB})
    pods = [
        make_pod(volumes=[volume("v", sizeLimit="1Mi")]),
        make_pod("p", limited("1Mi")),
        make_pod("p", limited("1Mi"), limited("1Gi", "side")),
        make_pod(),
    ]

    for pod in pods:
        assert is_over_own_limit("Evicted", over_limit(pod, usage, Disk(8 * MIB, MIB)))
    assert not is_over_own_limit("Evicted", pressure)
    assert not is_over_own_limit("OOMKilled", over_limit(pods[1], usage, ROOMY))


def test_usage_counts_each_file_once_and_follows_no_links(tmp_path: Path) -> None:
    deep, log = tmp_path / "volumes/v/deep", tmp_path / "containers/main/0"
    deep.mkdir(parents=True)
    log.mkdir(parents=True)
    (deep / "a").write_bytes(b"x" * 100_000)
    os.link(deep / "a", deep / "again")
    (deep / "elsewhere").symlink_to("/usr")
    (log / "log").write_bytes(b"x" * 200_000)
    (tmp_path / "hosts").write_bytes(b"x" * 300_000)
    with (deep / "sparse").open("wb") as file:
        file.truncate(1 << 40)

    usage = disk_usage(tmp_path)

    assert 100_000 <= usage.volumes["v"] < 150_000
    assert 200_000 <= usage.containers["main"] < 250_000
    assert 600_000 <= usage.total < 700_000
    assert disk_usage(tmp_path / "nothing") == DiskUsage()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
@needs_namespaces
async def test_pods_that_fill_the_disk_are_evicted_and_their_files_deleted(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localkube.node.eviction._INTERVAL", 0.2)
    mounts = [{"name": "v", "mountPath": "/v"}]
    talkative = "yes 0123456789 | head -c 4000000; sleep 1000"
    limit = {"resources": {"limits": {"ephemeral-storage": "3Mi"}}}
    home = small_disk / "home"
    async with local_node(home) as local:
        await local.run(manifest("talkative", container("main", "sh", "-c", talkative, **limit)))
        over = await local.phase("talkative", "Failed")
        main = container("main", "sh", "-c", FILL, volumeMounts=mounts)
        await local.run(manifest("filler", main, volumes=[volume("v")]))
        filler = await local.phase("filler", "Failed")
        process = local.pid(filler)
        await local.until(
            "filler",
            lambda p: "terminated" in p["status"]["containerStatuses"][0]["state"],
            "its end",
        )
        left = disk_usage(home / "pods" / filler["metadata"]["uid"]).total

    assert (filler["status"]["reason"], over["status"]["reason"]) == ("Evicted", "Evicted")
    assert over["status"]["message"] == (
        "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi."
    )
    assert "usage exceeds the default limit" in filler["status"]["message"]
    assert left < MIB
    assert not Path(f"/proc/{process}").exists()  # noqa: ASYNC240
    assert not leftovers.of(home)
