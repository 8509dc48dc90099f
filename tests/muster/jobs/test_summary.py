"""The view of a job: its status, reason, instances and GPUs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kubekit.objects.core import Pod
from kubekit.objects.meta import Raw
from kubekit.objects.status_column import status_column
from muster.jobs.view.instance import gpus
from muster.jobs.view.summary import summarize
from tests.muster.words import exited

CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def job(*conditions: str, chief: bool = False, **status: Any) -> Raw:
    """A job with these conditions; `Running=False` is a condition that is not True."""
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    roles = {"Worker": {"replicas": 2, "template": template}, "PS": {"template": template}}
    if chief:
        roles["Chief"] = {"template": template}
    rows = [
        {
            "type": text.partition("=")[0],
            "status": text.partition("=")[2] or "True",
            "message": f"why {text}",
            "lastTransitionTime": "2026-01-02T03:14:05Z",
        }
        for text in conditions
    ]
    return {
        "kind": "TFJob",
        "metadata": {
            "name": "j",
            "namespace": "ns",
            "uid": "u",
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {"tfReplicaSpecs": roles},
        "status": {"conditions": rows, **status},
    }


def pod(role: str = "worker", index: int = 0, phase: str = "Running", **more: Any) -> Pod:
    spec = more.pop("spec", {})
    created = more.pop("created", "2026-01-02T03:04:06Z")
    uid = more.pop("owner", "u")
    raw = {
        "metadata": {
            "name": f"j-{role}-{index}",
            "namespace": "ns",
            "creationTimestamp": created,
            "labels": {
                "training.kubeflow.org/operator-name": "tfjob-controller",
                "training.kubeflow.org/job-name": "j",
                "training.kubeflow.org/replica-type": role,
                "training.kubeflow.org/replica-index": str(index),
            },
            "ownerReferences": [{"uid": uid, "controller": True}] if uid else [],
        },
        "spec": spec,
        "status": {"phase": phase, **more},
    }
    return msgspec.convert(raw, Pod)


@pytest.mark.parametrize(
    ("conditions", "phases", "expected"),
    [
        ([], [], "PENDING"),
        (["Created"], ["Pending"], "PENDING"),
        (["Created", "Running"], ["Running", "Running"], "RUNNING"),
        (["Created", "Running"], ["Running", "Pending"], "PENDING"),
        (["Created", "Restarting"], ["Running"], "RESTARTING"),
        (["Created", "Running=False", "Succeeded"], ["Succeeded"], "SUCCEEDED"),
        (["Created", "Running=False", "Failed"], ["Failed", "Pending"], "FAILED"),
        (["Created", "Running=False", "Suspended"], [], "SUSPENDED"),
        (["Created", "Suspended=False", "Running"], ["Running"], "RUNNING"),
    ],
)
def test_the_status_of_a_job_is_one_of_six_words(
    conditions: list[str], phases: list[str], expected: str
) -> None:
    summary = summarize(job(*conditions), [pod(index=i, phase=p) for i, p in enumerate(phases)])

    assert summary.status == expected


def test_a_pending_job_shows_why_it_waits() -> None:
    row = {"type": "PodScheduled", "status": "False", "message": "1 GPU short on 2 nodes"}
    summary = summarize(job("Created"), [pod(phase="Pending", conditions=[row])])

    assert summary.reason == "1 GPU short on 2 nodes"
    assert summary.instances[0].reason == "1 GPU short on 2 nodes"


def test_a_job_without_pods_shows_the_message_of_its_status() -> None:
    waiting = {"reason": "QuotaExceeded", "message": "exceeded quota: q"}

    assert summarize(job("Created", waiting=waiting), []).reason == "exceeded quota: q"


def test_a_failed_job_shows_the_reason_of_its_failure() -> None:
    assert summarize(job("Created", "Failed"), []).reason == "why Failed"


def test_instances_are_in_order_of_role_and_number() -> None:
    pods = [pod("worker", 10), pod("worker", 2), pod("ps", 0)]

    summary = [instance.name for instance in summarize(job("Running"), pods).instances]

    assert summary == ["j-ps-0", "j-worker-2", "j-worker-10"]


def test_only_the_jobs_own_pods_are_its_instances() -> None:
    pods = [pod("worker", 0), pod("worker", 1, owner="other"), pod("ps", 0, owner="")]

    summary = [instance.name for instance in summarize(job("Running"), pods).instances]

    assert summary == ["j-ps-0", "j-worker-0"]


def test_the_chief_is_the_first_worker_unless_there_is_a_chief() -> None:
    pods = [pod("worker", 0), pod("worker", 1), pod("ps", 0)]
    summary = summarize(job("Running"), pods)
    assert summary.chief is not None
    assert summary.chief.name == "j-worker-0"

    summary = summarize(job("Running", chief=True), [*pods, pod("chief", 0)])
    assert summary.chief is not None
    assert summary.chief.name == "j-chief-0"


def test_the_newest_chief_that_is_not_pending_leads() -> None:
    old = pod("worker", 0, created="2026-01-01T00:00:00Z")
    newer = pod("worker", 0, created="2026-01-02T00:00:00Z")
    newest = pod("worker", 0, phase="Pending", created="2026-01-03T00:00:00Z")

    summary = summarize(job("Running"), [newest, old, newer])

    assert [i.created for i in summary.instances if i.chief] == [newer.metadata.creation_timestamp]


def test_gpus_of_all_containers_and_both_resource_names_are_added() -> None:
    containers = [
        {"name": "a", "resources": {"limits": {"nvidia.com/gpu": 2}}},
        {"name": "b", "resources": {"limits": {"aliyun.com/gpu": "1", "cpu": "4"}}},
    ]
    one = pod(spec={"containers": containers})

    assert gpus(one) == 3
    summary = summarize(
        job("Running"), [one, pod(index=1, phase="Pending", spec={"containers": containers})]
    )
    assert summary.allocated_gpus == 3


def test_requested_gpus_come_from_the_spec_whichever_pods_exist() -> None:
    raw = job("Succeeded")
    worker = raw["spec"]["tfReplicaSpecs"]["Worker"]
    limits = {"nvidia.com/gpu": "4"}
    container = {"name": "tensorflow", "image": "i", "resources": {"limits": limits}}
    worker["template"] = {"spec": {"containers": [container]}}
    left = pod("worker", 0, phase="Succeeded", spec={"containers": [container]})

    summary = summarize(raw, [left])

    assert (summary.requested_gpus, summary.allocated_gpus) == (8, 0)


def test_requested_gpus_of_an_invalid_job_come_from_its_pods() -> None:
    raw = job()
    raw["spec"] = {"tfReplicaSpecs": 3}
    container = {"name": "tensorflow", "resources": {"limits": {"nvidia.com/gpu": 2}}}

    assert summarize(raw, [pod(spec={"containers": [container]})]).requested_gpus == 2


def test_a_failed_instance_says_how_it_failed() -> None:
    row = {"name": "tensorflow", "state": {"terminated": {"exitCode": 3, "message": "no data"}}}

    summary = summarize(job("Failed"), [pod(phase="Failed", containerStatuses=[row])])

    assert summary.instances[0].reason == exited(3, "no data")


def test_age_and_duration_come_from_creation_start_and_end() -> None:
    now = CREATED + timedelta(hours=1)
    summary = summarize(job("Running", startTime="2026-01-02T03:05:05Z"), [])
    assert summary.age(now) == timedelta(hours=1)
    assert summary.duration(now) == timedelta(minutes=59)

    ended: Raw = {"startTime": "2026-01-02T03:05:05Z", "completionTime": "2026-01-02T03:06:05Z"}
    assert summarize(job("Succeeded", **ended), []).duration(now) == timedelta(minutes=1)
    assert summarize(job("Failed", startTime="2026-01-02T03:05:05Z"), []).duration(
        now
    ) == timedelta(minutes=9)
    assert summarize(job(), []).duration(now) == timedelta(hours=1)


def test_the_duration_of_a_job_leaves_out_its_suspensions() -> None:
    now = CREATED + timedelta(hours=1)
    times: Raw = {"startTime": "2026-01-02T03:05:05Z", "earlierSeconds": 600}

    resumed = summarize(job("Suspended=False", "Running", **times), [])
    assert resumed.duration(now) == timedelta(minutes=10 + 59)
    suspended = summarize(job("Running=False", "Suspended", **times), [])
    assert suspended.duration(now) == timedelta(minutes=10 + 9)


def test_an_invalid_job_is_still_shown() -> None:
    raw = job("Created")
    raw["spec"] = {"tfReplicaSpecs": {"Worker": {"replicas": "two"}}}

    summary = summarize(raw, [])

    assert summary.name == "j"
    assert summary.reason.startswith("spec.tfReplicaSpecs.Worker.replicas: is text")


WAITING = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
RUNNING = {"name": "c", "ready": True, "state": {"running": {}}}


def ended(code: int, **more: Any) -> Raw:
    return {"name": "c", "state": {"terminated": {"exitCode": code, **more}}}


INITS = {"initContainers": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("expected", "phase", "status", "spec"),
    [
        ("Pending", "Pending", {}, {}),
        ("ContainerCreating", "Pending", {"containerStatuses": [WAITING]}, {}),
        ("Running", "Running", {"containerStatuses": [RUNNING]}, {}),
        ("Completed", "Succeeded", {"containerStatuses": [ended(0, reason="Completed")]}, {}),
        ("Error", "Failed", {"containerStatuses": [ended(1, reason="Error")]}, {}),
        ("OOMKilled", "Failed", {"containerStatuses": [ended(137, reason="OOMKilled")]}, {}),
        ("ExitCode:3", "Failed", {"containerStatuses": [ended(3)]}, {}),
        ("Signal:9", "Failed", {"containerStatuses": [ended(137, signal=9)]}, {}),
        ("Evicted", "Failed", {"reason": "Evicted"}, {}),
        (
            "CrashLoopBackOff",
            "Running",
            {
                "containerStatuses": [
                    {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
                ]
            },
            {},
        ),
        (
            "Init:1/2",
            "Pending",
            {"initContainerStatuses": [ended(0), RUNNING], "containerStatuses": [WAITING]},
            INITS,
        ),
        ("Init:Error", "Failed", {"initContainerStatuses": [ended(1, reason="Error")]}, INITS),
        ("Init:ExitCode:7", "Pending", {"initContainerStatuses": [ended(7)]}, INITS),
        (
            "Init:ImagePullBackOff",
            "Pending",
            {
                "initContainerStatuses": [
                    {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                ]
            },
            INITS,
        ),
        (
            "NotReady",
            "Running",
            {"containerStatuses": [ended(0, reason="Completed"), RUNNING]},
            {},
        ),
        (
            "Running",
            "Running",
            {
                "containerStatuses": [ended(0, reason="Completed"), RUNNING],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
            {},
        ),
    ],
)
def test_the_status_of_a_pod_is_kubectls_status_column(
    expected: str, phase: str, status: Raw, spec: Raw
) -> None:
    assert status_column(pod(phase=phase, spec=spec, **status)) == expected


@pytest.mark.parametrize(
    ("phase", "reason", "expected"),
    [
        ("Running", "", "Terminating"),
        ("Running", "NodeLost", "Unknown"),
        ("Succeeded", "", "Succeeded"),
    ],
)
def test_a_pod_being_deleted_is_terminating(phase: str, reason: str, expected: str) -> None:
    summary = pod(phase=phase, reason=reason)
    meta = msgspec.structs.replace(summary.metadata, deletion_timestamp=CREATED)

    assert status_column(msgspec.structs.replace(summary, metadata=meta)) == expected


def test_a_sidecar_that_started_does_not_keep_a_pod_initialising() -> None:
    spec = {"initContainers": [{"name": "side", "restartPolicy": "Always"}]}
    side = {"name": "side", "started": True, "state": {"running": {}}}

    summary = pod(spec=spec, initContainerStatuses=[side], containerStatuses=[RUNNING])

    assert status_column(summary) == "Running"


def test_a_failed_job_shows_the_last_lines_of_the_pod_that_failed_once() -> None:
    raw = job("Failed")
    lines = ["Traceback:", "  train.py", "ValueError: boom"]
    first = {"pod": "j-worker-1", "role": "worker", "index": 1, "exitCode": 1, "lastLines": lines}
    raw["status"]["failure"] = {
        "code": "ReplicasFailed",
        "first": first,
        "role": "Worker",
        "count": 1,
    }

    summary = summarize(raw, [])

    assert summary.reason == f"worker 1 {exited(1, 'ValueError: boom')}"
    assert summary.headline == f"worker 1 {exited(1)}."
    assert summary.failed_pod == "j-worker-1"
    assert summary.last_lines == ("Traceback:", "  train.py", "ValueError: boom")
    assert summary.cause == (
        f": worker 1 {exited(1)}.\n  Traceback:\n    train.py\n  ValueError: boom"
    )


def test_a_succeeded_job_names_the_replica_that_had_not_finished() -> None:
    raw = job("Succeeded")
    raw["status"]["conditions"][0]["message"] = "TFJob ns/j successfully completed."
    assert summarize(raw, []).reason == ""

    text = "When the job succeeded, worker 1 had not finished: it exited with code 1."
    raw["status"]["unfinished"] = {"names": ["j-worker-1"], "message": text}
    assert summarize(raw, []).reason == text


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_finished_job_names_the_pods_that_nodes_still_run_or_restart(end: str) -> None:
    row = {
        "name": "tensorflow",
        "restartCount": 2,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 3}},
    }
    crashing = [pod(index=index, containerStatuses=[row]) for index in (0, 1)]
    loop = "still restarted after every failure"
    why = ", because the job's cleanPodPolicy is None; `arena delete j` ends that"
    runs = [pod("ps", index) for index in range(4)]

    def left(*pods: Pod, state: str = end) -> str:
        return summarize(job(state), list(pods)).left_pods

    assert left(crashing[1]) == f"j-worker-1 is {loop}{why}"
    assert left(*crashing) == f"j-worker-0, j-worker-1 are {loop}{why}"
    assert left(runs[0]) == f"j-ps-0 still runs and holds its room{why}"
    assert left(*runs[:2]) == f"j-ps-0, j-ps-1 still run and hold their room{why}"
    assert left(*runs) == f"4 pods still run and hold their room{why}"
    mixed = f"j-worker-0 is {loop} and j-ps-0 still runs and holds its room{why}"
    assert left(crashing[0], runs[0]) == mixed
    assert left(*crashing, *runs, state="Running") == ""
    assert left(pod(phase="Succeeded"), pod(index=1, phase="Pending")) == ""
    cleaned = job(end)
    cleaned["spec"]["runPolicy"] = {"cleanPodPolicy": "Running"}
    assert summarize(cleaned, [*crashing, *runs]).left_pods == ""
