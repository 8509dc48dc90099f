"""A job as a table for notebooks."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from kubekit.objects.core import Pod
from kubekit.objects.meta import Raw
from muster.jobs.view.summary import JobSummary, summarize
from muster.sdk.notebook.job_table import JobTable
from tests.muster.cli.fake_cluster import pod
from tests.muster.cli.place import TEMPLATE

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB: Raw = {
    "kind": "TFJob",
    "metadata": {
        "name": "j",
        "namespace": "default",
        "uid": "u",
        "creationTimestamp": "2026-01-01T11:58:00Z",
    },
}


def summary(replicas: int, **fields: object) -> JobSummary:
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": replicas or 1, "template": TEMPLATE}}}
    raw = {**JOB, "spec": spec}
    pods = [msgspec.convert(pod(raw, "worker", i, "Running"), Pod) for i in range(replicas)]
    return msgspec.structs.replace(summarize(raw, pods), status="RUNNING", **fields)


def test_the_table_has_a_row_for_each_replica() -> None:
    table = JobTable(summary(2, reason="worker 1 <restarts>"), NOW)

    assert table._repr_html_().count("<tr>") == 3
    assert "worker 1 &lt;restarts&gt;" in table._repr_html_()
    first, reason, head, *rows = repr(table).splitlines()
    assert first.startswith("tfjob/j in default: RUNNING (2 running of 2, 2m)")
    assert reason == "worker 1 <restarts>"
    assert head.split()[:2] == ["Replica", "Status"]
    assert [row.split()[0] for row in rows] == ["j-worker-0", "j-worker-1"]


def test_a_huge_job_is_cut() -> None:
    table = JobTable(summary(40), NOW)

    assert table._repr_html_().count("<tr>") == 33
    assert "and 8 more replicas" in table._repr_html_()
    assert repr(table).endswith("and 8 more replicas")


def test_a_job_without_pods_has_no_table() -> None:
    table = JobTable(summary(0), NOW)

    assert "<table" not in table._repr_html_()
    assert len(repr(table).splitlines()) == 1
