"""The manifests of two gang scheduling guides, verbatim, run to success.

Their image is not pulled: a stand-in for its program is in the folder that is laid over the host's
files for that image.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import EXAMPLES, LocalCluster
from tests.muster.cli.seeds import KUBE_ARBITRATOR, MANIFEST_JOB as JOB, VOLCANO
from tests.waiting import until

pytestmark = pytest.mark.slow
PROGRAM = "opt/tf-benchmarks/scripts/tf_cnn_benchmarks"
STAND_IN = """\
import sys

import numpy_ps

print("asked for", *sys.argv[1:], flush=True)
sys.argv[1:] = ["--steps=30"]
numpy_ps.main()
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up("--gpus-per-node", "1")
    for kind in ("cpu", "gpu"):
        image = f"gcr.io/kubeflow/tf-benchmarks-{kind}:v20171202-bdab599-dirty-284af3"
        folder = cluster.home / "images" / image / PROGRAM
        folder.mkdir(parents=True)
        shutil.copy(EXAMPLES / "numpy_ps.py", folder)
        (folder / "tf_cnn_benchmarks.py").write_text(STAND_IN)
    yield cluster
    cluster.down()


@pytest.mark.parametrize("guide", [VOLCANO, KUBE_ARBITRATOR], ids=lambda file: file.stem)
def test_a_guides_manifest_runs_to_success_as_written(local: LocalCluster, guide: Path) -> None:
    local.arena("apply", "-f", str(guide))

    job = local.wait_job(JOB, "SUCCEEDED", "FAILED")

    log = local.arena("logs", JOB).stdout
    assert job["status"] == "SUCCEEDED", log
    assert "--variable_update=parameter_server" in log
    losses = [float(loss) for loss in re.findall(r"^step \d+ loss ([\d.]+)", log, re.MULTILINE)]
    assert losses[-1] < losses[0] / 2
    local.arena("delete", JOB)
    until(lambda: local.arena("get", JOB, check=False).returncode == 3, what="the job is gone")
