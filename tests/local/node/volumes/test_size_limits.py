"""Pods over the size limit of an emptyDir."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.local.node.volumes.size_limits import disk_usage, limited_volumes
from tests.local.node import leftovers
from tests.local.node.local_node import local_node, needs_namespaces
from tests.local.node.pod_builders import container, make_pod, manifest


def test_only_limited_volumes_on_disk_of_running_pods_are_checked() -> None:
    volumes = [
        {"name": "free", "emptyDir": {}},
        {"name": "small", "emptyDir": {"sizeLimit": "1Mi"}},
        {"name": "quick", "emptyDir": {"sizeLimit": "1Mi", "medium": "Memory"}},
        {"name": "host", "hostPath": {"path": "/"}},
    ]

    assert [v.name for v in limited_volumes(make_pod(volumes=volumes))] == ["small"]
    assert list(limited_volumes(make_pod(volumes=volumes, status={"phase": "Failed"}))) == []


def test_disk_usage_counts_all_files_below_a_directory(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "deep" / "b").write_bytes(b"x" * 100_000)

    assert 200_000 <= disk_usage(tmp_path) < 250_000
    assert disk_usage(tmp_path / "nothing") == 0


@pytest.mark.slow
@needs_namespaces
async def test_a_pod_over_the_size_limit_of_a_volume_is_evicted(tmp_path: Path) -> None:
    fill = "dd if=/dev/zero of=/v/big bs=1M count=3 2>/dev/null; sleep 1000"
    mounts = [{"name": "v", "mountPath": "/v"}]
    async with local_node(tmp_path) as local:
        await local.run(
            manifest(
                "p",
                container("main", "sh", "-c", fill, volumeMounts=mounts),
                volumes=[{"name": "v", "emptyDir": {"sizeLimit": "2Mi"}}],
            )
        )
        failed = await local.phase("p", "Failed")
        assert failed["status"]["reason"] == "Evicted"
        assert 'volume "v" exceeds the limit "2Mi"' in failed["status"]["message"]
        process = local.pid(failed)
        await local.until(
            "p", lambda p: "terminated" in p["status"]["containerStatuses"][0]["state"], "its end"
        )
        assert not Path(f"/proc/{process}").exists()  # noqa: ASYNC240
    assert not leftovers.of(tmp_path)
