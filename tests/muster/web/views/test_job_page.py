"""One job: reason, place in line, timeline, replicas, and which changes are possible."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import yaml
from msgspec.structs import replace

from kubekit.objects.core import Pod
from kubekit.objects.meta import Raw, timestamp
from muster.client.manifests import yaml_writer
from muster.contract.job_explanation import JobExplanation
from muster.jobs.view.events import EventRow
from muster.jobs.view.summary import summarize
from muster.web.views.job_page import (
    MANY_REPLICAS,
    MAX_EVENTS,
    JobFacts,
    JobPage,
    end_in_words,
    job_page,
    manifest,
)
from tests.builders import read_pod
from tests.muster.web.objects import job

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def page(raw: Raw, pods: tuple[Pod, ...] = (), **facts: object) -> JobPage:
    return job_page(raw, summarize(raw, pods, NOW), JobFacts(**facts), NOW)  # type: ignore[arg-type]


def test_a_waiting_job_has_its_reason_and_its_place_once_each() -> None:
    reason = "short 1 nvidia.com/gpu"
    text = f"{reason}; 2nd in line"
    explanation = JobExplanation("x", "waiting", text, place=2, in_line=7, reason=reason)
    raw = job("x", state="Created")
    raw["status"]["conditions"][0]["lastTransitionTime"] = timestamp(NOW)
    shown = page(raw, explanation=explanation)

    assert shown.job.status == "PENDING"
    assert shown.place == "2nd of 7 in line"
    assert shown.reason == reason
    assert shown.topics == "job:default/x line"


@pytest.mark.parametrize(
    ("state", "suspend", "resume"),
    [("Running", True, False), ("Suspended", False, True), ("Failed", False, False)],
)
def test_only_possible_changes_are_offered(state: str, suspend: bool, resume: bool) -> None:
    shown = page(job("x", state=state))

    assert (shown.can_suspend, shown.can_resume) == (suspend, resume)
    assert shown.topics == "job:default/x"


def test_the_timeline_has_the_conditions_in_their_order() -> None:
    raw = job("x", state="Running")
    times = [("Failed", "True", 3), ("Running", "False", 2)]
    raw["status"]["conditions"] = [
        {"type": type_, "status": status, "message": "m",
         "lastTransitionTime": timestamp(NOW - timedelta(minutes=10 - minute))}
        for type_, status, minute in times
    ]  # fmt: skip
    moments = page(raw).timeline

    assert [(m.title, m.holds) for m in moments] == [
        ("Created", True), ("Running", False), ("Failed", True),
    ]  # fmt: skip


def test_the_duration_of_a_running_job_counts_on() -> None:
    raw = job("x", state="Running")
    raw["status"]["startTime"] = timestamp(NOW - timedelta(minutes=5))

    assert page(raw).running_since == NOW - timedelta(minutes=5)
    raw["status"]["conditions"].append({"type": "Succeeded", "status": "True"})
    assert page(raw).running_since is None


def test_a_job_that_has_not_run_waits_and_later_says_how_long_it_waited() -> None:
    raw = job("x", state="Created", created=NOW - timedelta(minutes=5))
    raw["status"]["startTime"] = timestamp(NOW - timedelta(minutes=5))
    facts = dict(page(raw).facts)
    assert (facts["Waiting"], "Duration" in facts) == ("5m", False)

    running = {"type": "Running", "status": "True"}
    running["lastTransitionTime"] = timestamp(NOW - timedelta(minutes=2))
    raw["status"]["conditions"].append(running)
    facts = dict(page(raw).facts)
    assert (facts["Waited"], facts["Duration"], "Waiting" in facts) == ("3m", "5m", False)


def test_a_replica_does_not_repeat_the_reason_of_its_job() -> None:
    raw = job("x", state="Created")
    meta = {"name": "x-worker-0", "namespace": "default", "labels": labels()}
    (row,) = summarize(raw, (read_pod(meta=meta, status={"phase": "Pending"}),), NOW).instances
    row = replace(row, reason="short 2 nvidia.com/gpu")
    other = replace(row, name="x-worker-1", reason="no such image")
    explanation = JobExplanation("x", "waiting", "short 2 nvidia.com/gpu")
    shown = page(raw, explanation=explanation, replicas=(row, other))

    assert shown.reason == "short 2 nvidia.com/gpu"
    assert [replica.reason for replica in shown.replicas] == ["", "no such image"]


def test_of_many_replicas_those_with_a_reason_come_first() -> None:
    raw = job("x", state="Running")
    pods = tuple(running(n) for n in range(MANY_REPLICAS + 1))
    rows = list(summarize(raw, pods, NOW).instances)
    rows[4] = replace(rows[4], reason="exited with code 1")

    rows[6] = replace(rows[6], reason="exited with code 1")

    shown = page(raw, replicas=rows).replicas
    assert [row.instance.name for row in shown[:3]] == ["x-worker-4", "x-worker-6", "x-worker-0"]
    reason = "exited with code 1 (and 1 more for the same reason)"
    assert [row.reason for row in shown[:3]] == [reason, "", ""]
    assert page(raw, replicas=rows[:5]).replicas[4].instance.name == "x-worker-4"


def test_a_job_without_a_chief_names_none() -> None:
    raw = job("x", state="Running")
    first = running(0)
    first = replace(first, spec=replace(first.spec, node_name="n1"))

    shown = page(raw, (first,), replicas=summarize(raw, (first,), NOW).instances)

    assert [row.instance.chief for row in shown.replicas] == [True]
    assert dict(shown.facts)["Worker 0 on"] == "n1"


def test_pods_that_are_gone_are_rows_with_their_logs_and_do_not_change_the_counts() -> None:
    raw = job("x", state="Failed")
    meta = {"name": "x-worker-0", "namespace": "default", "labels": labels()}
    rows = summarize(raw, (read_pod(meta=meta, status={"phase": "Failed"}),), NOW).instances
    shown = page(
        raw, replicas=rows, gone={"x-worker-0": "Exited with 143"}, attempts={"x-worker-0": 3}
    )
    (row,) = shown.replicas

    assert (row.gone, row.attempts, row.state) == (True, 3, "Exited with 143")
    assert "logs are here" in row.reason
    assert "1 failed" not in dict(shown.facts).get("Replicas", "")


def test_a_pod_that_was_stopped_with_its_job_has_not_failed() -> None:
    raw = job("x", state="Succeeded")
    raw["status"]["stopped"] = {"names": ["x-worker-1"], "message": "m"}
    summary = summarize(raw, (), NOW)

    assert end_in_words("x-worker-1", 143, summary) == "Stopped"
    assert end_in_words("x-worker-0", 0, summary) == "Exited with 0"
    assert end_in_words("x-worker-0", None, summary) == "Ended"
    suspended = summarize(job("x", state="Suspended"), (), NOW)
    assert end_in_words("x-worker-0", 143, suspended) == "Stopped"


def test_events_are_newest_first_and_bounded() -> None:
    rows = [EventRow("pod/x", "Normal", NOW, str(n)) for n in range(MAX_EVENTS + 5)]
    shown = page(job("x"), events=rows)

    assert shown.events is not None
    assert [row.message for row in shown.events[:2]] == [str(MAX_EVENTS + 4), str(MAX_EVENTS + 3)]
    assert len(shown.events) == MAX_EVENTS
    assert page(job("x")).events is None


def test_the_events_of_a_large_job_need_one_topic() -> None:
    raw = job("x", workers=50)
    pods = tuple(running(n) for n in range(50))

    assert page(raw, pods).event_topics == "events"
    assert page(raw, pods[:1]).event_topics == "events:default/x events:default/x-worker-0"


def test_a_manifest_has_no_trace_of_the_cluster() -> None:
    raw = job("x", state="Running")
    raw["metadata"] |= {
        "resourceVersion": "5", "managedFields": [{}], "labels": {"a": "b"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "yes"},
    }  # fmt: skip
    shown = yaml.safe_load(yaml_writer.dump(manifest(raw)))

    metadata = {"name": "x", "namespace": "default", "labels": {"a": "b"}}
    assert shown["metadata"] == {**metadata, "annotations": {"mine": "yes"}}
    assert list(shown) == ["apiVersion", "kind", "metadata", "spec"]
    assert shown["spec"] == raw["spec"]
    assert raw["metadata"]["annotations"]["mine"] == "yes"


def labels(index: int = 0) -> dict[str, str]:
    prefix = "training.kubeflow.org"
    return {
        f"{prefix}/job-name": "x",
        f"{prefix}/operator-name": "tfjob-controller",
        f"{prefix}/replica-type": "worker",
        f"{prefix}/replica-index": str(index),
    }


def running(index: int) -> Pod:
    meta = {"namespace": "default", "labels": labels(index)}
    return read_pod(f"x-worker-{index}", meta=meta, status={"phase": "Running"})
