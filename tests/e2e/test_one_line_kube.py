"""Jobs with and without a gang on a real cluster with kube-scheduler beside Muster's scheduler.

Muster is installed as `muster install` does it; the user has the role `edit` in one namespace.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubekit.objects.meta import Raw
from tests.e2e.installed_cluster import TEAM, USER, InstalledCluster, installed_cluster
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow]
GPUS = 2
"""Of each of the four nodes that have some."""


@pytest.fixture(scope="module")
def cluster(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledCluster]:
    with installed_cluster(control_plane_binaries, tmp_path_factory.mktemp("user"), 4) as started:
        started.grant(0)
        review = ("auth", "can-i", "create", "tfjobs.kubeflow.org", "-n", TEAM, f"--as={USER}")
        until(
            lambda: started.plane.kubectl(*review).stdout.strip() == "yes",
            what="the role edit has the rights on jobs",
        )
        yield started


@pytest.fixture(autouse=True)
def _empty_namespace(cluster: InstalledCluster) -> Iterator[None]:
    yield
    cluster.admin("delete", "tfjobs", "--all", "-n", TEAM)
    until(lambda: not pods(cluster), timeout=60, what="no pod is left")


def pods(cluster: InstalledCluster, job: str = "") -> list[Raw]:
    """The pods of a job, or all."""
    words = ("-l", f"training.kubeflow.org/job-name={job}") if job else ()
    text = cluster.admin("get", "pods", "-n", TEAM, "-o", "json", *words)
    rows: list[Raw] = json.loads(text)["items"]
    return rows


def submit(cluster: InstalledCluster, name: str, workers: int, *flags: str) -> None:
    words = ("arena submit tf", f"--name={name}", f"--workers={workers}", f"--gpus={GPUS}")
    cluster.run(" ".join((*words, "--image=i", *flags, '"train"')))
    until(lambda: len(pods(cluster, name)) == workers, what=f"the pods of {name}")


def schedulers(rows: list[Raw]) -> set[str]:
    return {row["spec"]["schedulerName"] for row in rows}


def bound(rows: list[Raw]) -> list[str]:
    return [node for row in rows if (node := row["spec"].get("nodeName"))]


def test_a_job_without_the_flag_is_a_gang_and_nothing_overcommits_a_node(
    cluster: InstalledCluster,
) -> None:
    submit(cluster, "holder", 3, "--gang")
    until(lambda: len(bound(pods(cluster, "holder"))) == 3, what="the holder runs")
    submit(cluster, "plain", 2)
    waits = "1 of 2 workers fit"
    until(lambda: waits in cluster.run("arena get plain").stdout, what="the reason of a gang")

    assert schedulers(pods(cluster, "plain")) == {"muster"}
    assert bound(pods(cluster, "plain")) == []
    submit(cluster, "single", 2, "--gang=false")
    until(lambda: len(bound(pods(cluster, "single"))) == 1, what="one of two replicas starts")
    assert schedulers(pods(cluster, "single")) == {"muster"}
    until(
        lambda: "single-worker" in cluster.run("arena explain single").stdout,
        what="the reason of the other",
    )
    # Each worker has a whole node.
    assert Counter(bound(pods(cluster))).most_common(1)[0][1] == 1
    cluster.run("arena delete holder")
    until(lambda: len(bound(pods(cluster))) == 4, timeout=60, what="both jobs run")
    assert Counter(bound(pods(cluster))).most_common(1)[0][1] == 1


@pytest.mark.parametrize(
    ("template", "scheduler"),
    [
        ({"schedulerName": "default-scheduler"}, "default-scheduler"),
        (
            {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
            "default-scheduler",
        ),
        ({}, "muster"),
    ],
)
def test_a_named_scheduler_and_claims_of_devices_are_left_as_they_are(
    cluster: InstalledCluster, template: dict[str, Any], scheduler: str
) -> None:
    containers = [{"name": "tensorflow", "image": "i"}]
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "left", "annotations": {"muster.dev/gang": "false"}},
        "spec": {
            "tfReplicaSpecs": {
                "Worker": {
                    "replicas": 1,
                    "template": {"spec": {"containers": containers} | template},
                }
            }
        },
    }
    file = cluster.folder / "job.json"
    file.write_text(json.dumps(job))
    cluster.run(f"arena apply -f {file}")
    until(lambda: pods(cluster, "left"), what="its pod")

    assert schedulers(pods(cluster, "left")) == {scheduler}
