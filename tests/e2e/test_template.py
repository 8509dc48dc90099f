"""The commands of the template workshop, verbatim: process, apply, and the log of the chief."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.client.models import catalog
from tests.e2e.local_cluster import ARENA, EXAMPLES, LocalCluster
from tests.muster.cli.seeds import WORKSHOP, WORKSHOP_JOB as JOB
from tests.waiting import until

pytestmark = pytest.mark.slow

LINES = f"set -euo pipefail\n{WORKSHOP}"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up()
    yield cluster
    cluster.down()


def run_workshop(local: LocalCluster) -> None:
    result = subprocess.run(
        ["bash", "-c", f'oc() {{ "{ARENA}" "$@"; }}\n{LINES}'],
        cwd=EXAMPLES,
        env=local.env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == f"tfjob.kubeflow.org/{JOB} created"


def test_the_workshop_commands_train_and_export_a_model(local: LocalCluster) -> None:
    run_workshop(local)

    log = local.arena("logs", "-f", JOB).stdout
    for replica in ("chief-0", "ps-0", "worker-0", "worker-1"):
        assert f"{JOB}-{replica}" in log
    assert "trained: loss" in log
    until(lambda: local.job(JOB)["status"] == "SUCCEEDED", what="the job's success")
    exported = list((local.home / "data" / "volumes").rglob("model.npz"))
    assert [path.relative_to(path.parents[4]).as_posix() for path in exported] == [
        f"user1/{JOB}/export/1/model.npz"
    ]


def versions(local: LocalCluster) -> list[str]:
    """The published versions of the model, by the API alone."""
    with local.client() as client:
        rows = catalog.list_models(client, "default")
    return [version.version for row in rows for version in row.model.versions]


def test_the_model_is_picked_up_outlives_its_job_and_can_be_tried_and_downloaded(
    local: LocalCluster, tmp_path: Path
) -> None:
    until(lambda: versions(local) == ["1"], what="version 1")

    listed = local.arena("models").stdout.splitlines()[1].split()
    assert listed[:3] == [JOB, "1", "npz"]
    given = json.dumps({"inputs": [[1.0] * 20]})
    answer = json.loads(local.arena("models", "try", JOB, "--input", given).stdout)
    assert len(answer["probabilities"][0]) == 4
    local.arena("models", "download", JOB, "-o", str(tmp_path / "m.tar"))
    with tarfile.open(tmp_path / "m.tar") as archive:
        assert archive.getnames() == ["1/model.npz"]
    assert [pod for pod in local.arena("get", "pods").stdout.split() if "model-" in pod] == []

    local.arena("delete", JOB)
    assert versions(local) == ["1"]
    result = local.arena("models", "try", JOB, check=False)
    assert (result.returncode, "is gone" in result.stderr) == (3, True)
