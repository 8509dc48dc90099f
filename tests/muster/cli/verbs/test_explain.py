"""Jobs that restart, are suspended or have ended: the same truth in `list`, `get` and `explain`."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from kubekit.objects.core import Pod
from kubekit.objects.meta import Raw
from muster.jobs import job_sentences, pod_status
from muster.jobs.job_status import Ending, JobFailure
from tests.muster.cli.fake_cluster import Scene, ago, condition, job, pod
from tests.muster.words import restarted

LOOP = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=c"}


def crashing(scene: Scene, message: str = "step 1\nboom\x1b[2J") -> None:
    """A job of two workers, the second of which crashed 15 s ago."""
    running = condition(job("TFJob", "j", {"Worker": 2}, age=90), "Running")
    crashed = pod(running, "worker", 1, "Running", node="n1")
    end = {"exitCode": 3, "finishedAt": ago(15), "message": message}
    crashed["status"]["containerStatuses"] = [
        {
            "name": "c",
            "restartCount": 3,
            "state": {"waiting": LOOP},
            "lastState": {"terminated": end},
        }
    ]
    pods = [pod(running, "worker", 0, "Running", node="n1"), crashed]
    scene.objects = {"tfjobs": [running], "pods": pods, "configmaps": [], "services": []}


def explained(scene: Scene) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(scene.arena("explain", "j", "-o", "json")[1])
    return result


def test_a_crash_loop_is_named_everywhere_with_its_next_try(scene: Scene) -> None:
    crashing(scene)
    text = f"worker 1 {restarted(3, 3, 'boom')}\\x1b[2J"

    code, out, err = scene.arena("list")
    assert (code, out.splitlines()[1].split()[:2]) == (0, ["j", "RESTARTING"])
    assert err == f"j: {text}; next try in 25 s\n"
    assert f"Reason:      {text}; next try in 25 s\n" in scene.arena("get", "j")[1]
    out = scene.arena("explain", "j")[1]
    assert out.splitlines()[1].split() == ["State:", "restarting"]
    assert f"Why:    {text}; next try in 25 s\n" in out


def test_json_has_the_parts_of_a_crash(scene: Scene) -> None:
    crashing(scene)

    data = json.loads(scene.arena("get", "j", "-o", "json")[1])

    assert (data["status"], data["nextTry"]) == (
        "RESTARTING",
        data["instances"][1]["crash"]["nextTry"],
    )
    crash = data["instances"][1]["crash"]
    assert (crash["exitCode"], crash["lastLine"]) == (3, "boom\x1b[2J")
    assert data["nextTry"] - data["creationTimestamp"] == 90 + 25
    assert "crash" not in data["instances"][0]
    assert explained(scene)["state"] == "restarting"


def test_a_crash_is_shown_without_its_log(scene: Scene) -> None:
    crashing(scene, message="")

    out = scene.arena("get", "j")[1]

    assert f"worker 1 {restarted(3, 3)}; next try in 25 s\n" in out


def with_worker_on_silent_node(scene: Scene, *, evicted: bool, **status: Any) -> str:
    """A job of two workers; the node of the second fell silent ten minutes ago: what is said."""
    running = condition(job("TFJob", "j", {"Worker": 2}, age=900), "Running")
    running["status"] |= status
    lost = pod(running, "worker", 1, "Running", node="n2")
    lost["status"]["conditions"] += [
        {"type": "Ready", "status": "False", "lastTransitionTime": ago(600)},
        {"type": "ContainersReady", "status": "True", "lastTransitionTime": ago(800)},
    ]
    if evicted:
        lost["metadata"] |= {"deletionTimestamp": ago(300), "deletionGracePeriodSeconds": 30}
    pods = [pod(running, "worker", 0, "Running", node="n1"), lost]
    scene.objects = {"tfjobs": [running], "pods": pods, "configmaps": [], "services": []}
    return pod_status.unreachable(msgspec.convert(lost, Pod, strict=False))


def test_a_worker_on_a_node_that_does_not_answer_is_not_called_running(scene: Scene) -> None:
    why = with_worker_on_silent_node(scene, evicted=False)

    assert scene.arena("list")[1].splitlines()[1].split()[1] == "RUNNING"
    assert f"Reason:      {why}" in scene.arena("get", "j")[1]
    assert explained(scene)["text"].startswith(
        f"2 of 2 pods have a node, on 2 nodes; 1 running, 1 on a node that does not answer; {why}"
    )
    whys = [member["why"] for member in explained(scene)["members"]]
    assert whys == ["", "node n2 does not answer"]


def test_a_worker_that_cannot_end_on_a_dead_node_says_what_a_person_can_do(scene: Scene) -> None:
    why = with_worker_on_silent_node(scene, evicted=True)

    code, out, err = scene.arena("list")
    assert (code, out.splitlines()[1].split()[1]) == (0, "RESTARTING")
    assert err.startswith(f"j: {why}")
    assert f"Reason:      {why}" in scene.arena("get", "j")[1]
    out = scene.arena("explain", "j")[1]
    assert out.splitlines()[1].split() == ["State:", "restarting"]
    assert f"Why:    {why}" in out
    for command in (
        "kubectl taint nodes n2 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
        "kubectl delete pod j-worker-1 --namespace default --force",
    ):
        assert f"`{command}`" in out
        assert f"`{command}`" in scene.arena("explain", "j-worker-1")[1]


def test_a_drained_worker_says_who_evicted_it_from_where(scene: Scene) -> None:
    running = condition(job("TFJob", "j", {"Worker": 2}, age=900), "Running")
    by = "evicted from node n2 through the eviction API, as by `kubectl drain`"
    waits = {"reason": "Terminating", "message": "waits for pod j-worker-1 to end"}
    running["status"] |= {"preempted": by, "waiting": waits}
    leaving = pod(running, "worker", 1, "Running", node="n2")
    leaving["metadata"] |= {"deletionTimestamp": ago(-20), "deletionGracePeriodSeconds": 30}
    pods = [pod(running, "worker", 0, "Running", node="n1"), leaving]
    scene.objects = {"tfjobs": [running], "pods": pods, "configmaps": [], "services": []}
    why = f"{by}; {waits['message']}"

    assert scene.arena("list")[1].splitlines()[1].split()[1] == "RESTARTING"
    assert f"Reason:      {why}\n" in scene.arena("get", "j")[1]
    assert explained(scene)["text"] == why


def ended(scene: Scene, type_: str, message: str = "", **status: Any) -> None:
    raw: Raw = condition(job("TFJob", "j", {"Worker": 2, "PS": 1}, age=90), type_, message)
    raw["status"].update(status)
    scene.objects = {"tfjobs": [raw], "pods": [], "configmaps": [], "services": []}


def test_a_suspended_job_is_suspended(scene: Scene) -> None:
    ended(scene, "Suspended", "TFJob j is suspended.")
    text = job_sentences.suspended("TFJob", "j")

    assert scene.arena("list")[1].splitlines()[1].split()[1] == "SUSPENDED"
    assert f"Reason:      {text}\n" in scene.arena("get", "j")[1]
    assert scene.arena("explain", "j")[1] == f"Name:   j\nState:  suspended\nWhy:    {text}\n"


def test_a_job_that_ended_is_explained_without_its_pods(scene: Scene) -> None:
    counts = {"Worker": {"succeeded": 2}, "PS": {"succeeded": 1}}
    ended(scene, "Succeeded", replicaStatuses=counts)

    assert explained(scene)["state"] == "succeeded"
    assert explained(scene)["text"] == "has ended: 3 succeeded of 3"
    ended(scene, "Failed", "why it failed")
    assert (explained(scene)["state"], explained(scene)["text"]) == ("failed", "why it failed")


def test_a_crash_without_retries_names_the_flag_that_would_have_helped(scene: Scene) -> None:
    first = {"pod": "j-worker-1", "role": "worker", "index": 1, "exitCode": 137}
    failure = {"code": "ReplicasFailed", "first": first, "role": "Worker", "count": 1}
    told = JobFailure("ReplicasFailed", Ending("", exit_code=137), without_retry=True)
    hint = job_sentences.remedy(told)
    assert "--retry=3" in hint
    ended(scene, "Failed", "m", failure={**failure, "withoutRetry": True})

    assert f"Hint:        {hint}\n" in scene.arena("get", "j")[1]
    assert f"Hint:   {hint}\n" in scene.arena("explain", "j")[1]
    ended(scene, "Failed", "m", failure=failure)
    assert "--retry" not in scene.arena("explain", "j")[1] + scene.arena("get", "j")[1]


def test_a_job_whose_pods_do_not_exist_yet_waits(scene: Scene) -> None:
    ended(scene, "Created")

    assert (explained(scene)["state"], explained(scene)["text"]) == ("waiting", "has no pods yet")


def waiting(scene: Scene, *whys: str) -> list[str]:
    """The output of `explain` for a job with pods that wait for these reasons, as lines."""
    job_ = job("TFJob", "j", {"Worker": len(whys)}, age=90)
    pods = [pod(job_, "worker", index, why=why) for index, why in enumerate(whys)]
    scene.objects = {"tfjobs": [job_], "pods": pods, "configmaps": [], "services": []}
    return scene.arena("explain", "j")[1].splitlines()


def test_a_reason_of_many_pods_is_said_once(scene: Scene) -> None:
    lines = waiting(scene, *["8 GPUs short"] * 4)

    assert sum("8 GPUs short" in line for line in lines) == 1
    assert [row["why"] for row in explained(scene)["members"]] == ["8 GPUs short"] * 4


def test_another_reason_of_several_pods_is_said_once_with_their_number(scene: Scene) -> None:
    lines = waiting(scene, "8 GPUs short", "no such volume", "no such volume", "no such volume")

    assert [line for line in lines if "no such volume" in line] == [
        "j-worker-1  worker  Pending  -     no such volume (and 2 more for the same reason)"
    ]


def test_fields_without_effect_are_named_once_from_the_job_and_from_its_group(
    scene: Scene,
) -> None:
    raw = job("TFJob", "j", {"Worker": 1})
    policy = {"queue": "research", "scheduleTimeoutSeconds": 60}
    raw["spec"]["runPolicy"] = {"schedulingPolicy": policy}
    group = {
        "metadata": {
            "name": "j",
            "namespace": "default",
            "annotations": {"volcano.sh/qos-level": "LS"},
        },
        "spec": {"minMember": 1, "queue": "research"},
    }
    worker = pod(raw, "worker", 0, "Running", node="n1")
    worker["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "j"}
    scene.objects = {"tfjobs": [raw], "pods": [worker], "configmaps": [], "podgroups": [group]}

    lines = [line for line in scene.arena("explain", "j")[1].splitlines() if "Not served" in line]

    assert [line.split(" has no effect: ")[0].split(": ")[1].strip() for line in lines] == [
        "schedulingPolicy.queue (research)",
        "schedulingPolicy.scheduleTimeoutSeconds (60)",
        "volcano.sh/qos-level (LS)",
    ]
    scene.forbidden = {"podgroups"}
    assert len(explained(scene)["notServed"]) == 2
    worker["spec"]["schedulerName"] = "volcano"  # which may serve it
    assert explained(scene)["notServed"] == []


def refused(name: str, age: int, priority: int = 0) -> Raw:
    """A job that waits for the quota `team`."""
    raw = condition(job("TFJob", name, {"Worker": 1}, age=age), "Created")
    quota = {"name": "team", "needs": {"pods": "1"}, "priority": priority, "since": ago(60)}
    raw["status"]["waiting"] = {"reason": "QuotaExceeded", "message": "no room", "quota": quota}
    return raw


def test_get_and_explain_show_the_place_in_the_line_of_a_quota(scene: Scene) -> None:
    jobs = [refused("j", 80), refused("old", 90), refused("young", 70), refused("high", 10, 5)]
    scene.objects = {"tfjobs": jobs, "pods": [], "configmaps": []}
    place = "3rd of 4 in the line of the quota team, for 1m"

    assert f"Line:        {place}\n" in scene.arena("get", "j")[1]
    out = scene.arena("explain", "j")[1].splitlines()
    assert out[2:] == ["Why:       no room", f"Line:      {place}", "Priority:  0"]
    assert (explained(scene)["quota"], explained(scene)["code"]) == ("team", "QuotaExceeded")


def test_a_place_that_somebody_else_wrote_into_a_status_breaks_nothing(scene: Scene) -> None:
    raw, other = refused("j", 80), refused("old", 90)
    raw["status"]["waiting"]["quota"]["since"] = "yesterday"
    other["status"]["waiting"]["quota"] = {"name": 7, "needs": "many"}
    scene.objects = {"tfjobs": [raw, other], "pods": [], "configmaps": []}

    assert "1st of 1 in the line of the quota team" in scene.arena("get", "j")[1]


def test_a_gang_that_is_no_job_is_explained_by_its_own_name(scene: Scene) -> None:
    owner, group = job("TFJob", "g", {"Worker": 2}), {"scheduling.k8s.io/group-name": "vg"}
    pods = [pod(owner, "worker", index, "Running", node="n1") for index in range(2)]
    for one in pods:
        one["metadata"] |= {"labels": {}, "ownerReferences": [], "annotations": group}
    scene.objects = {"tfjobs": [], "pods": pods, "configmaps": [], "podgroups": []}

    out = scene.arena("explain", "vg")[1]

    assert "Why:    2 of 2 pods have a node, on 1 node; 2 running\n" in out
    assert "Gang:   default/vg" in out
    assert scene.arena("explain", "job/vg")[0] == 3
    assert scene.arena("explain", "other")[0] == 3
