"""Waiting for a job: until it has reached the goal, failed, or was deleted."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from kubekit.errors import MusterError
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Raw
from kubekit.request_errors import NotFound, Unreachable
from muster.client.jobs import waiting
from muster.client.jobs.waiting import FINISHED, JobFailed, JobWatch, WaitTimeout
from muster.contract.job_kinds import MPIJOBS, TFJOBS
from muster.jobs.view.summary import JobSummary, summarize
from tests.muster.cli.fake_cluster import FakeCluster, pod
from tests.muster.cli.place import TEMPLATE
from tests.muster.jobs.builders import summary

Step = JobSummary | MusterError


class Script:
    """A watch that plays these steps, one for each look."""

    name = "j"

    def __init__(self, *steps: Step) -> None:
        self._steps = iter(steps)

    def look(self) -> JobSummary:
        step = next(self._steps)
        if isinstance(step, MusterError):
            raise step
        return step

    def failure(self, job: JobSummary) -> JobFailed:
        return JobFailed(f"the job {job.name} failed{job.cause}")

    def wait(self, _: float) -> None: ...


def wait(*steps: Step, **options: Any) -> JobSummary:
    return waiting.wait_for(cast(JobWatch, Script(*steps)), FINISHED, **options)


def test_waiting_ends_with_success_and_survives_an_unreachable_cluster() -> None:
    seen: list[str] = []
    notes: list[str] = []

    last = wait(
        summary("PENDING"), Unreachable("no answer"), summary("RUNNING"), summary("SUCCEEDED"),
        on_look=lambda each: seen.append(each.status), notify=notes.append,
    )  # fmt: skip

    assert last.status == "SUCCEEDED"
    assert seen == ["PENDING", "RUNNING", "SUCCEEDED"]
    assert notes == ["waiting for the cluster: no answer"]


def test_the_other_workers_of_a_job_that_succeeded_are_waited_for() -> None:
    settling = msgspec.structs.replace(summary("SUCCEEDED"), settling=True)
    sentence = "Worker 1 was stopped because the job had succeeded (worker 0 had ended)."

    assert wait(settling, settling, summary("SUCCEEDED", sentence)).reason == sentence
    # Not beyond the deadline, and not if only the start of the job matters.
    assert wait(settling, deadline=0) is settling
    assert waiting.wait_for(cast(JobWatch, Script(settling)), waiting.STARTED) is settling


def test_workers_that_nobody_stops_are_waited_for_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "SETTLE_SECONDS", 0.0)
    settling = msgspec.structs.replace(summary("SUCCEEDED"), settling=True)

    assert wait(settling) is settling


@pytest.mark.parametrize(
    ("policy", "active", "settling"),
    [("Running", 1, True), ("All", 1, True), ("None", 1, False), ("Running", 0, False)],
)
def test_a_succeeded_job_settles_while_its_workers_may_end(
    policy: str, active: int, settling: bool
) -> None:
    raw: Raw = {
        "kind": "TFJob",
        "apiVersion": "kubeflow.org/v1",
        "metadata": {"name": "j", "namespace": "n", "uid": "u"},
        "spec": {
            "runPolicy": {"cleanPodPolicy": policy},
            "tfReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}},
        },
        "status": {
            "conditions": [{"type": "Succeeded", "status": "True"}],
            "replicaStatuses": {"Worker": {"active": active, "succeeded": 2 - active}},
        },
    }

    assert summarize(raw, []).settling is settling


def test_a_job_that_fails_is_an_error_with_its_own_exit_code() -> None:
    with pytest.raises(JobFailed, match="the job j failed: out of memory") as failed:
        wait(summary("RUNNING"), summary("FAILED", "out of memory"))

    assert failed.value.cli_exit_code == 10


def test_a_job_that_is_deleted_meanwhile_is_not_found() -> None:
    with pytest.raises(NotFound, match="the job j was deleted"):
        wait(summary("RUNNING"), NotFound("gone"))


def test_waiting_ends_at_the_deadline() -> None:
    with pytest.raises(WaitTimeout, match="the job j is still pending") as late:
        wait(summary("PENDING"), deadline=0)
    assert isinstance(late.value, TimeoutError)
    with pytest.raises(Unreachable):
        wait(Unreachable("no answer"), deadline=0)


def test_a_job_that_runs_or_ran_has_started() -> None:
    for status in ("RUNNING", "SUCCEEDED"):
        script = cast(JobWatch, Script(summary("PENDING"), summary(status)))
        assert waiting.wait_for(script, waiting.STARTED).status == status


@pytest.mark.parametrize(
    ("kind", "role", "phase", "policy", "kept"),
    [
        (TFJOBS, "worker", "Failed", {"cleanPodPolicy": "Running"}, True),
        (TFJOBS, "worker", "Failed", {"cleanPodPolicy": "None"}, True),
        (TFJOBS, "worker", "Failed", {"cleanPodPolicy": "All"}, False),
        (TFJOBS, "worker", "Running", {"cleanPodPolicy": "Running"}, False),
        (TFJOBS, "worker", "Failed", {"ttlSecondsAfterFinished": 1}, False),
        (TFJOBS, "worker", "Failed", {"ttlSecondsAfterFinished": 3600}, True),
        (MPIJOBS, "launcher", "Failed", {"cleanPodPolicy": "Running"}, True),
        (MPIJOBS, "launcher", "Failed", {"cleanPodPolicy": "All"}, False),
        (MPIJOBS, "worker", "Failed", {"cleanPodPolicy": "All"}, False),
    ],
)
def test_pods_that_the_clean_up_keeps_have_logs(
    kind: Kind[Raw], role: str, phase: str, policy: Raw, kept: bool
) -> None:
    hint = hint_of_failure(kind, role, phase, {"runPolicy": policy})

    assert ("arena logs j -n default" in hint) is kept
    assert ("logs with them" in hint) is not kept


def test_the_launcher_of_an_older_version_keeps_its_log() -> None:
    spec = {"backoffLimit": 6, "cleanPodPolicy": "All"}

    assert "arena logs j -n default" in hint_of_failure(MPIJOBS, "launcher", "Failed", spec)


def hint_of_failure(kind: Kind[Raw], role: str, phase: str, spec: Raw) -> str:
    roles = ("launcher", "worker") if kind is MPIJOBS else ("worker",)
    specs = {name: {"template": TEMPLATE} for name in roles}
    raw = {
        "kind": kind.kind,
        "metadata": {"name": "j", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {f"{kind.kind[:-3].lower()}ReplicaSpecs": specs, **spec},
    }
    client = FakeCluster({"pods": [pod(raw, role, 0, phase)]})
    watching = JobWatch(client, kind, raw)

    return watching.failure(watching.look()).hint
