"""The guides' commands on a real cluster of 200 nodes, by an ordinary user.

`muster install` made the accounts under which the operator and the scheduler run. The user has the
rights that docs/kubernetes.md gives to users, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.rights import Right
from tests.audited_rights import Refusal, denied, requests_of
from tests.e2e.installed_cluster import (
    COMPONENTS,
    LOG,
    NAMESPACE,
    TEAM,
    USER,
    InstalledCluster,
    installed_cluster,
    instances,
)
from tests.muster.cli import seeds
from tests.muster.cli.seeds import EXAMPLES, KUBE_ARBITRATOR, MANIFEST_JOB, MPI, TENSORFLOW, VOLCANO
from tests.muster.words import short
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow]
NODES = 200
FURTHER = {Right("list", "", "nodes"), Right("get", "", "configmaps")}
"""Rights outside the namespace that docs/kubernetes.md names; commands do without them."""
NOT_THERE = {Right("list", "metrics.k8s.io", "pods"), Right("list", "logs.muster.dev", "podlogs")}
"""Of kinds that this cluster does not have."""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: models}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  hostPath: {path: /models}
"""


@pytest.fixture(scope="module")
def cluster(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledCluster]:
    folder = tmp_path_factory.mktemp("user")
    values = folder / "charts" / "tfjob" / "values.yaml"
    values.parent.mkdir(parents=True)
    values.write_text(seeds.GANG_VALUES)
    with installed_cluster(control_plane_binaries, folder, NODES) as started:
        started.grant(0)
        until(lambda: may_submit(started), what="the role edit has the rights on jobs")
        yield started


def may_submit(cluster: InstalledCluster) -> bool:
    """The controller manager adds our rules to the role `edit`, some time after `install`."""
    review = ("auth", "can-i", "create", "mpijobs.kubeflow.org", "-n", TEAM, f"--as={USER}")
    return cluster.plane.kubectl(*review).stdout.strip() == "yes"


def rows(text: str, job: str) -> dict[str, list[str]]:
    """The instances in the output of `arena get`: status and node of each."""
    lines = [line.split() for line in text.splitlines() if line.startswith(f"  {job}-")]
    return {line[0]: [line[1], line[-1]] for line in lines}


def delete(cluster: InstalledCluster, job: str) -> None:
    """`arena delete`, until everything of the job is gone."""
    cluster.run(f"arena delete {job}")
    is_gone(cluster, job)


def is_gone(cluster: InstalledCluster, job: str) -> None:
    kinds = "tfjobs,mpijobs,pods,services,deployments,podgroups.scheduling.volcano.sh,pdb"

    def left() -> list[str]:
        names = cluster.admin("get", kinds, "-n", TEAM, "-o", "name").splitlines()
        return [name for name in names if name.partition("/")[2].startswith(job)]

    until(lambda: not left(), timeout=60, every=0.3, what=f"{job} is gone")


def test_a_gang_of_five_waits_and_one_of_four_runs_with_its_tensorboard(
    cluster: InstalledCluster,
) -> None:
    out = cluster.run(MPI.replace("{workers}", "5")).stdout.splitlines()
    assert out[-1] == "mpijob.kubeflow.org/mpi-dist created"
    until(lambda: "4 of 5 workers" in cluster.run(seeds.GET_MPI).stdout, what="a reason")
    waiting = cluster.run(seeds.GET_MPI).stdout
    assert rows(waiting, "mpi-dist") == {
        f"mpi-dist-worker-{i}": ["Pending", "N/A"] for i in range(5)
    }
    assert short(2) in cluster.run("arena explain mpi-dist").stdout
    assert "PENDING" in cluster.run("arena list").stdout
    delete(cluster, "mpi-dist")

    cluster.run(MPI.replace("{workers}", "4"))
    job = cluster.until_job("mpi-dist", "RUNNING")
    shown = rows(cluster.run(seeds.GET_MPI).stdout, "mpi-dist")
    assert [name.rpartition("-")[0] for name in shown] == [
        "mpi-dist-launcher",
        *["mpi-dist-worker"] * 4,
    ]
    assert {status for status, _ in shown.values()} == {"Running"}
    assert {node for name, (_, node) in shown.items() if "worker" in name} == {
        "n000",
        "n001",
        "n002",
        "n003",
    }
    assert cluster.run("arena logs mpi-dist").stdout == LOG
    until(lambda: ":3" in cluster.run("arena get mpi-dist").stdout, what="TensorBoard's address")
    assert cluster.run("arena open --print mpi-dist").stdout.startswith("http://127.0.0.1:3")
    assert "8/8" in cluster.run("arena top job").stdout

    cluster.finish([name for name in instances(job) if "launcher" in name])
    cluster.until_job("mpi-dist", "SUCCEEDED")
    assert "mpi-dist" in cluster.run("arena prune --since 0s --dry-run").stdout
    cluster.run("arena prune --since 0s --yes")
    is_gone(cluster, "mpi-dist")


def test_tensorflow_as_a_gang_waits_whole_and_runs_whole(cluster: InstalledCluster) -> None:
    cluster.run(MPI.replace("{workers}", "4"))
    cluster.until_job("mpi-dist", "RUNNING")
    big = TENSORFLOW.replace("tf-dist-git", "tf-dist-data").replace("--workers=2", "--workers=4")
    cluster.run(big)
    until(lambda: short(4) in cluster.run(seeds.GET_TENSORFLOW).stdout, what="a reason")
    members = ["ps-0", *[f"worker-{i}" for i in range(4)]]
    assert rows(cluster.run(seeds.GET_TENSORFLOW).stdout, "tf-dist-data") == {
        f"tf-dist-data-{member}": ["Pending", "N/A"] for member in members
    }
    delete(cluster, "mpi-dist")
    cluster.until_job("tf-dist-data", "RUNNING")
    assert {
        status
        for status, _ in rows(cluster.run(seeds.GET_TENSORFLOW).stdout, "tf-dist-data").values()
    } == {"Running"}

    cluster.run(TENSORFLOW)
    job = cluster.until_job("tf-dist-git", "RUNNING")
    assert cluster.run("arena get tf-dist-git --type tfjob").stdout.count("Running") == 3
    cluster.finish([name for name in instances(job) if "worker" in name])
    cluster.until_job("tf-dist-git", "SUCCEEDED")
    for name in ("tf-dist-git", "tf-dist-data"):
        delete(cluster, name)


@pytest.mark.parametrize("manifest", [VOLCANO, KUBE_ARBITRATOR], ids=lambda file: file.stem)
def test_a_manifest_of_a_guide_runs_as_a_gang(cluster: InstalledCluster, manifest: Path) -> None:
    cluster.run(f"arena apply -f {manifest}")
    job = cluster.until_job(MANIFEST_JOB, "RUNNING")
    dialect = "pdb" if manifest is KUBE_ARBITRATOR else "podgroups.scheduling.volcano.sh"
    assert MANIFEST_JOB in cluster.admin("get", dialect, "-n", TEAM, "-o", "name")
    cluster.finish([name for name in instances(job) if "worker" in name])
    cluster.until_job(MANIFEST_JOB, "SUCCEEDED")
    delete(cluster, MANIFEST_JOB)


def test_the_workshop_is_followed_to_its_end(cluster: InstalledCluster) -> None:
    cluster.admin("apply", "-f", "-", text=VOLUME)
    out = cluster.run(seeds.WORKSHOP, EXAMPLES).stdout.splitlines()
    assert out[-1] == f"tfjob.kubeflow.org/{seeds.WORKSHOP_JOB} created"
    job = cluster.until_job(seeds.WORKSHOP_JOB, "RUNNING")
    assert len(cluster.run(seeds.WORKSHOP_PODS).stdout.splitlines()) == 4
    cluster.finish([name for name in instances(job) if "ps" not in name.rpartition("user1")[2]])
    # kwok follows a log for ever: only the lines are its own.
    assert cluster.first_lines(seeds.WORKSHOP_LOGS, 2) == LOG
    cluster.until_job(seeds.WORKSHOP_JOB, "SUCCEEDED")
    delete(cluster, seeds.WORKSHOP_JOB)


def test_nobody_lacked_a_right_but_the_user_who_did_without(cluster: InstalledCluster) -> None:
    refused = cluster.run("arena top node", code=4).stderr
    assert 'may not list nodes; add the rule {apiGroups: [""], resources: [nodes]' in refused
    assert "nodes:    you may not list them" in cluster.run("arena status").stdout

    assert {name: denied(cluster.plane, account(name)) for name in COMPONENTS} == {
        "operator": [],
        "scheduler": [],
    }
    denials = set(denied(cluster.plane, USER))
    assert set(map(Refusal, FURTHER)) <= denials <= set(map(Refusal, FURTHER | NOT_THERE))
    assert "no errors" in cluster.run("muster doctor").stdout


def account(component: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:muster-{component}"


def test_with_the_further_rights_of_the_docs_nothing_is_left_out(cluster: InstalledCluster) -> None:
    cluster.grant(1)
    before = len(requests_of(cluster.plane, USER))

    assert "n199" in cluster.run("arena top node").stdout
    assert f"{NODES} of {NODES} ready" in cluster.run("arena status").stdout
    cluster.run(MPI.replace("{workers}", "5"))
    until(lambda: "1st" in cluster.run("arena explain mpi-dist").stdout, timeout=60, what="a place")
    delete(cluster, "mpi-dist")
    since = requests_of(cluster.plane, USER)[before:]
    assert {request.right.group for request in since if request.code == 403} <= {"metrics.k8s.io"}
