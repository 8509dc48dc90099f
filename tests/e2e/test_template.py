"""The commands of the template workshop, verbatim: process, apply, and the log of the chief."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.local_cluster import ARENA, EXAMPLES, LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow

LINES = """
set -euo pipefail
oc process -f openshift/tf-job_distributed-template.yaml \
 --param JOB_NAME=training-distributed-user1 --param IMAGE_NAME=training-user1 \
 --param BUCKET=user1 --param WORKERS=2 | oc apply -f -
"""
JOB = "training-distributed-user1"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up()
    yield cluster
    cluster.down()


def test_the_workshop_commands_train_and_export_a_model(local: LocalCluster) -> None:
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

    log = local.arena("logs", "-f", JOB).stdout
    for replica in ("chief-0", "ps-0", "worker-0", "worker-1"):
        assert f"{JOB}-{replica}" in log
    assert "trained: loss" in log
    until(lambda: local.job(JOB)["status"] == "SUCCEEDED", what="the job's success")
    exported = list(local.home.rglob("model.npz"))
    assert [path.relative_to(path.parents[4]).as_posix() for path in exported] == [
        f"user1/{JOB}/export/1/model.npz"
    ]
