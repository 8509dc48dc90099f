"""A command that changes something names the cluster, unless that is the local one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.muster.cli.place import Place, ended

JOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: new}
spec: {tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}
"""
WRITES = (
    "submit tf --name=other --image=i true",
    "apply -f job.yaml",
    "create -f job.yaml",
    "scale runs --workers 3",
    "suspend runs",
    "resume stopped",
    "delete runs",
    "prune --since 1h --yes",
)
READS = ("list", "get runs", "prune --since 1h --dry-run", "apply -f job.yaml --dry-run=server")


@pytest.fixture
def jobs(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Jobs that run, are suspended and have ended, and a manifest of another."""
    place.job("runs")
    place.job("stopped")
    place.job("over", **ended("Succeeded"))
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return place


@pytest.fixture
def local_jobs(jobs: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The same on a cluster whose kubeconfig is the local cluster's."""
    home = tmp_path / "home"
    home.mkdir()
    kubeconfig = home / "kubeconfig"
    kubeconfig.write_bytes(jobs.kubeconfig.read_bytes())
    monkeypatch.setenv("MUSTER_HOME", str(home))
    return replace(jobs, kubeconfig=kubeconfig)


@pytest.mark.parametrize("command", WRITES)
def test_a_write_names_a_cluster_that_is_not_local(jobs: Place, command: str) -> None:
    code, _, err = jobs.arena(*command.split())

    assert code == 0, err
    assert "cluster: " in err.splitlines()[0]
    assert "(from --kubeconfig)" in err.splitlines()[0]


@pytest.mark.parametrize("command", WRITES)
def test_a_write_does_not_name_the_local_cluster(local_jobs: Place, command: str) -> None:
    code, _, err = local_jobs.arena(*command.split())

    assert code == 0, err
    assert "cluster: " not in err


@pytest.mark.parametrize("command", READS)
def test_reads_and_dry_runs_name_no_cluster(jobs: Place, command: str) -> None:
    code, _, err = jobs.arena(*command.split())

    assert code == 0, err
    assert "cluster: " not in err
