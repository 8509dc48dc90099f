"""`arena get` prints the tables that the guides show, and always why a job waits."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from kubekit.objects.core import Pod
from muster.jobs.view.summary import summarize
from tests.muster.cli.fake_cluster import Scene, ago, condition, job, pod

WHY = "4 of 5 workers fit; short 2 nvidia.com/gpu"


def waiting_mpi(scene: Scene) -> None:
    """Five workers of two GPUs each on a cluster of eight, twenty seconds on."""
    mpi = job("MPIJob", "mpi-dist", {"Launcher": 1, "Worker": 5}, gpus=2, age=20)
    pods = [pod(mpi, "worker", i, gpus=2, age=20, why=WHY) for i in range(5)]
    row = {
        "gang": "default/mpi-dist", "place": 2, "code": "c", "reason": WHY,
        "since": ago(18), "dialect": "volcano", "least": 5,
    }  # fmt: skip
    ahead = {**row, "gang": "default/other", "place": 1}
    for member in pods:
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "mpi-dist"}
    line = {
        "metadata": {"name": "muster-line", "namespace": "kube-system"},
        "data": {"line": json.dumps([ahead, row])},
    }
    scene.objects = {"mpijobs": [mpi], "pods": pods, "configmaps": [line]}


def running_mpi(scene: Scene) -> None:
    mpi = job("MPIJob", "mpi-dist", {"Launcher": 1, "Worker": 4}, gpus=2, age=300)
    mpi = condition(mpi, "Running")
    running: dict[str, Any] = {"phase": "Running", "age": 300, "ip": "192.168.0.1"}
    launcher = pod(mpi, "launcher", 0, node="cn-1", name="mpi-dist-launcher-5279n", **running)
    workers = [pod(mpi, "worker", i, node=f"cn-{i}", gpus=2, **running) for i in range(4)]
    scene.objects = {"mpijobs": [mpi], "pods": [*workers, launcher]}


def retried_mpi(scene: Scene, *, failed: str, now: str) -> None:
    """An MPI job whose launcher `failed` was replaced within the second by the launcher `now`."""
    running_mpi(scene)
    (mpi,) = scene.objects["mpijobs"]
    *workers, _ = scene.objects["pods"]
    end = {"containerStatuses": [{"name": "mpi", "state": {"terminated": {"exitCode": 1}}}]}
    old = pod(mpi, "launcher", 0, node="cn-1", age=300, phase="Failed", name=failed)
    old["status"] |= end
    new = pod(mpi, "launcher", 0, node="cn-1", age=300, phase="Running", name=now)
    scene.objects["pods"] = [*workers, old, new]


def instances(text: str) -> str:
    return text[text.index("Instances:") :]


def test_a_gang_too_big_shows_all_its_workers_pending(scene: Scene) -> None:
    waiting_mpi(scene)

    code, out, _ = scene.arena("get", "mpi-dist")

    assert code == 0
    assert instances(out) == (
        "Instances:\n"
        "  NAME               STATUS   AGE  IS_CHIEF  GPU(Requested)  NODE\n"
        "  ----               ------   ---  --------  --------------  ----\n"
        "  mpi-dist-worker-0  Pending  20s  false     2               N/A\n"
        "  mpi-dist-worker-1  Pending  20s  false     2               N/A\n"
        "  mpi-dist-worker-2  Pending  20s  false     2               N/A\n"
        "  mpi-dist-worker-3  Pending  20s  false     2               N/A\n"
        "  mpi-dist-worker-4  Pending  20s  false     2               N/A\n"
    )


def test_a_waiting_job_says_why_and_its_place_in_line(scene: Scene) -> None:
    waiting_mpi(scene)

    _, out, _ = scene.arena("get", "mpi-dist")

    head = out[: out.index("Instances:")].splitlines()
    assert head[:2] == ["Name:        mpi-dist", "Status:      PENDING"]
    assert f"Reason:      {WHY}" in head
    assert "Line:        2nd of 2 in line, for 18s" in head


@pytest.mark.parametrize(("failed", "now"), [("l-a", "l-b"), ("l-b", "l-a")])
def test_a_launcher_that_was_replaced_within_the_second_is_not_the_chief(
    scene: Scene, failed: str, now: str
) -> None:
    retried_mpi(scene, failed=failed, now=now)

    _, out, _ = scene.arena("get", "mpi-dist")

    chiefs = {row.split()[0]: row.split()[3] for row in instances(out).splitlines()[3:]}
    assert (chiefs[failed], chiefs[now]) == ("false", "true")


def test_a_launcher_that_was_replaced_is_no_replica(scene: Scene) -> None:
    retried_mpi(scene, failed="l-a", now="l-b")

    (mpi,) = scene.objects["mpijobs"]
    pods = msgspec.convert(scene.objects["pods"], list[Pod])

    assert summarize(mpi, pods).counts == "5 running of 5"


def test_a_gang_that_fits_shows_its_launcher_as_chief(scene: Scene) -> None:
    running_mpi(scene)

    _, out, _ = scene.arena("get", "mpi-dist")

    assert instances(out) == (
        "Instances:\n"
        "  NAME                     STATUS   AGE  IS_CHIEF  GPU(Requested)  NODE\n"
        "  ----                     ------   ---  --------  --------------  ----\n"
        "  mpi-dist-launcher-5279n  Running  5m   true      0               cn-1\n"
        "  mpi-dist-worker-0        Running  5m   false     2               cn-0\n"
        "  mpi-dist-worker-1        Running  5m   false     2               cn-1\n"
        "  mpi-dist-worker-2        Running  5m   false     2               cn-2\n"
        "  mpi-dist-worker-3        Running  5m   false     2               cn-3\n"
    )


def test_restarts_are_shown_once_there_are_any_with_those_of_recreated_pods(scene: Scene) -> None:
    running_mpi(scene)
    scene.objects["mpijobs"][0]["status"]["earlierRestarts"] = {"worker-1": 2}
    row = {"name": "mpi", "restartCount": 1, "state": {"running": {}}}
    for index in (1, 2):
        scene.objects["pods"][index]["status"]["containerStatuses"] = [row]

    _, out, _ = scene.arena("get", "mpi-dist")

    rows = [line.split() for line in instances(out).splitlines()[1:]]
    assert [row[0] for row in rows[2:]] == [
        "mpi-dist-launcher-5279n",
        *(f"mpi-dist-worker-{index}" for index in range(4)),
    ]
    assert [row[-1] for row in rows] == ["RESTARTS", "--------", "0", "0", "3", "1", "0"]


def test_restarts_of_replicas_without_a_pod_stand_below_the_others(scene: Scene) -> None:
    running_mpi(scene)
    scene.objects["mpijobs"][0]["status"]["earlierRestarts"] = {"worker-1": 2}
    scene.objects["pods"] = [
        row for row in scene.objects["pods"] if row["metadata"]["name"] != "mpi-dist-worker-1"
    ]

    _, out, _ = scene.arena("get", "mpi-dist")
    data = json.loads(scene.arena("get", "mpi-dist", "-o", "json")[1])

    assert out.splitlines()[-1] == "  Restarts of replicas without a pod: worker-1 2"
    assert data["goneRestarts"] == {"worker-1": 2}


def test_the_full_output_of_a_running_job(scene: Scene) -> None:
    running_mpi(scene)
    scene.objects["services"] = [
        {
            "metadata": {"name": "mpi-dist-tensorboard", "namespace": "default"},
            "spec": {"ports": [{"port": 6006, "nodePort": 30123}]},
        }
    ]
    labels = {"release": "mpi-dist", "role": "tensorboard"}
    board = {
        "metadata": {"name": "mpi-dist-tensorboard-x", "namespace": "default", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    scene.objects["pods"].append(board)

    _, out, _ = scene.arena("get", "mpi-dist", "-g")

    assert out.startswith(
        "Name:        mpi-dist\n"
        "Status:      RUNNING\n"
        "Namespace:   default\n"
        "Priority:    N/A\n"
        "Trainer:     MPIJOB\n"
        "Duration:    5m\n"
        "CreateTime:  2026-01-02 02:59:30\n"
        "EndTime:\n"
        "Node:        cn-1 (192.168.0.1)\n\n"
        "Instances:\n"
    )
    assert out.endswith(
        "  Allocated/Requested GPUs of Job: 8/8\n\n"
        "Tensorboard:\n"
        "  Your tensorboard will be available on:\n"
        "  http://127.0.0.1:30123\n"
    )


def classic(scene: Scene, phase: str, age: int, workers: int) -> str:
    tf = job("TFJob", "tf-dist-data", {"PS": 1, "Worker": workers}, gpus=1, age=age)
    if phase == "Running":
        tf = condition(tf, "Running")
    names = [("ps", 0), *(("worker", i) for i in range(workers))]
    ips = ["192.168.1.115", "192.168.1.119", "192.168.1.118", "192.168.1.120", ""]
    pods = [
        pod(tf, role, i, phase, ip=ip if phase == "Running" else "")
        for (role, i), ip in zip(names, ips, strict=False)
    ]
    scene.objects = {"tfjobs": [tf], "pods": pods}
    return scene.arena("get", "tf-dist-data", "--format", "classic")[1]


def test_the_classic_table_of_a_waiting_job(scene: Scene) -> None:
    assert classic(scene, "Pending", 0, 4) == (
        "NAME          STATUS   TRAINER  AGE  INSTANCE               NODE\n"
        "tf-dist-data  PENDING  TFJOB    0s   tf-dist-data-ps-0      N/A\n"
        "tf-dist-data  PENDING  TFJOB    0s   tf-dist-data-worker-0  N/A\n"
        "tf-dist-data  PENDING  TFJOB    0s   tf-dist-data-worker-1  N/A\n"
        "tf-dist-data  PENDING  TFJOB    0s   tf-dist-data-worker-2  N/A\n"
        "tf-dist-data  PENDING  TFJOB    0s   tf-dist-data-worker-3  N/A\n"
    )


def test_the_classic_table_of_a_running_job(scene: Scene) -> None:
    assert classic(scene, "Running", 4, 3) == (
        "NAME          STATUS   TRAINER  AGE  INSTANCE               NODE\n"
        "tf-dist-data  RUNNING  TFJOB    4s   tf-dist-data-ps-0      192.168.1.115\n"
        "tf-dist-data  RUNNING  TFJOB    4s   tf-dist-data-worker-0  192.168.1.119\n"
        "tf-dist-data  RUNNING  TFJOB    4s   tf-dist-data-worker-1  192.168.1.118\n"
        "tf-dist-data  RUNNING  TFJOB    4s   tf-dist-data-worker-2  192.168.1.120\n"
    )


def test_a_pending_job_without_pods_still_says_why(scene: Scene) -> None:
    scene.objects = {"tfjobs": [job("TFJob", "new", {"Worker": 2})], "pods": []}

    _, out, _ = scene.arena("get", "new")

    assert "Reason:      has no pods yet" in out


def test_a_name_is_a_job_then_a_pod(scene: Scene) -> None:
    tf = job("TFJob", "twin", {"Worker": 1})
    twin = pod(tf, "worker", 0, name="twin")
    scene.objects = {"tfjobs": [tf], "pods": [twin, pod(tf, "worker", 0)]}

    assert "Trainer:     TFJOB" in scene.arena("get", "twin")[1]
    assert "Trainer:     TFJOB" in scene.arena("get", "job/twin")[1]
    assert "Trainer:     TFJOB" in scene.arena("get", "tfjob/twin")[1]
    assert "Trainer" not in scene.arena("get", "pod/twin")[1]
    assert "Job:             twin" in scene.arena("get", "twin-worker-0")[1]


def test_a_missing_name_is_not_found(scene: Scene) -> None:
    scene.objects = {"tfjobs": [], "pods": []}

    assert scene.arena("get", "x")[::2] == (
        3,
        "error: Not found training job x in namespace default,"
        "please use 'arena submit' to create it.\n",
    )
    assert scene.arena("get", "pod/x")[0] == 3
    assert scene.arena("get", "mpijob/x")[0] == 3
    assert scene.arena("get", "cat/x")[0] == 2


@pytest.mark.parametrize("text", ["../a", "./a", "/a", ".tfjob/a", "tfjob/", "job/a/b"])
@pytest.mark.parametrize("verb", ["get", "delete"])
def test_a_path_is_not_a_name(scene: Scene, verb: str, text: str) -> None:
    scene.objects = {"tfjobs": [job("TFJob", "a", {"Worker": 1})], "pods": [], "configmaps": []}

    code, _, err = scene.arena(verb, text)

    assert (code, scene.sent) == (2, [])
    assert f"{text}: write NAME, job/NAME or pod/NAME" in err


def test_a_type_may_carry_its_group(scene: Scene) -> None:
    scene.objects = {"tfjobs": [job("TFJob", "a", {"Worker": 1})], "pods": []}

    assert scene.arena("get", "tfjobs.kubeflow.org/a")[0] == 0
    assert scene.arena("get", "TFJob.v1.kubeflow.org/a")[0] == 0


@pytest.mark.parametrize("word", ["ev", "po", "no", "svc", "cm", "pod", "secret", "job", "tfjob"])
def test_a_job_named_like_a_kind_is_a_job_first(scene: Scene, word: str) -> None:
    scene.objects = {
        "tfjobs": [job("TFJob", word, {"Worker": 1})],
        **{key: [] for key in ("events", "pods", "nodes", "services", "configmaps", "secrets")},
    }

    assert f"Name:        {word}\n" in scene.arena("get", word)[1]
    assert scene.arena("get", word, "-o", "name")[1] == f"tfjob/{word}\n"


def test_a_plural_or_a_kind_that_no_job_is_named_like_lists_objects(
    scene: Scene,
) -> None:
    scene.objects = {"tfjobs": [job("TFJob", "events", {"Worker": 1})], "events": [], "pods": []}

    for words in (["events"], ["ev"], ["event"], ["ev", "-A"], ["ev", "-l", "a=b"], ["job"]):
        code, out, _ = scene.arena("get", *words)
        assert code == 0
        assert "Instances:" not in out


def test_json_has_arenas_fields_in_arenas_order(scene: Scene) -> None:
    running_mpi(scene)

    _, out, _ = scene.arena("get", "mpi-dist", "-o", "json")

    data = json.loads(out)
    added = ("reason", "restarts", "nextTry", "lastLines", "line")
    assert [key for key in data if key not in added] == [
        "uuid", "name", "namespace", "duration", "status", "trainer", "tensorboard", "chiefName",
        "instances", "priority", "requestGPUs", "allocatedGPUs", "creationTimestamp",
    ]  # fmt: skip
    assert (data["trainer"], data["duration"], data["chiefName"]) == (
        "mpijob", "300s", "mpi-dist-launcher-5279n",
    )  # fmt: skip
    assert [row["requestGPUs"] for row in data["instances"]] == [0, 2, 2, 2, 2]


def test_with_o_name_only_names_are_printed(scene: Scene) -> None:
    running_mpi(scene)

    assert scene.arena("get", "mpi-dist", "-o", "name")[1] == "mpijob/mpi-dist\n"


def test_the_events_of_a_job_include_those_of_its_pods(scene: Scene) -> None:
    waiting_mpi(scene)

    def event(kind: str, name: str, uid: str, reason: str, age: int) -> dict[str, Any]:
        return {
            "metadata": {"name": f"{name}.{age}", "namespace": "default"},
            "involvedObject": {"kind": kind, "name": name, "uid": uid},
            "type": "Normal", "reason": reason, "message": "m", "lastTimestamp": ago(age),
        }  # fmt: skip

    scene.objects["events"] = [
        event("Pod", "mpi-dist-worker-0", "uid-mpi-dist-worker-0", "Waits", 5),
        event("MPIJob", "mpi-dist", "uid-mpi-dist", "Created", 20),
        event("Pod", "mpi-dist-worker-0", "of-an-older-one", "Stale", 9),
        event("PodGroup", "mpi-dist", "g", "Short", 4),
        event("PodGroup", "mpi-dist", "f", "OfTheJobBefore", 40),
    ]

    _, out, _ = scene.arena("get", "mpi-dist", "-e")

    assert out[out.index("Events:") :] == (
        "Events:\n"
        "  SOURCE                 TYPE    AGE  MESSAGE\n"
        "  ------                 ----    ---  -------\n"
        "  mpijob/mpi-dist        Normal  20s  [Created] m\n"
        "  pod/mpi-dist-worker-0  Normal  5s   [Waits] m\n"
        "  podgroup/mpi-dist      Normal  4s   [Short] m\n"
    )


def test_a_job_without_events_says_so(scene: Scene) -> None:
    running_mpi(scene)
    scene.objects["events"] = []

    assert scene.arena("get", "mpi-dist", "-e")[1].endswith("Events:\n  No events for resources\n")


@pytest.mark.parametrize("verb", ["get", "logs", "explain", "wait", "delete", "suspend"])
def test_a_mistyped_name_of_a_job_gets_the_similar_name(scene: Scene, verb: str) -> None:
    waiting_mpi(scene)

    code, _, err = scene.arena(verb, "mpi-dits")

    assert code == 3
    assert err.endswith("\nDid you mean mpi-dist?\n")
    assert "Did you mean" not in scene.arena(verb, "resnet")[2]


@pytest.mark.parametrize("verb", ["get", "logs", "explain", "wait", "delete", "suspend"])
def test_a_job_of_another_type_is_named(scene: Scene, verb: str) -> None:
    waiting_mpi(scene)
    scene.objects["tfjobs"] = []

    for words in (["tfjob/mpi-dist"], ["mpi-dist", "--type=tfjob"]):
        code, _, err = scene.arena(verb, *words)
        assert code == 3
        assert err.endswith("\nThere is mpijob/mpi-dist.\n")


def test_several_names_are_all_shown_although_one_is_missing(scene: Scene) -> None:
    waiting_mpi(scene)

    code, out, err = scene.arena("get", "-o", "name", "nope", "mpi-dist", "pod/mpi-dist-worker-0")

    assert (code, out) == (3, "mpijob/mpi-dist\npod/mpi-dist-worker-0\n")
    assert "Not found training job nope" in err


def test_several_jobs_are_one_list_for_machines(scene: Scene) -> None:
    first, second = job("TFJob", "a", {"Worker": 1}), job("TFJob", "b", {"Worker": 1})
    scene.objects = {"tfjobs": [first, second], "pods": []}

    _, out, _ = scene.arena("get", "a", "b", "-o", "json")
    assert [row["name"] for row in json.loads(out)] == ["a", "b"]

    _, out, _ = scene.arena("get", "a", "b", "-o", "yaml")
    assert [row["name"] for row in yaml.safe_load(out)] == ["a", "b"]

    code, out, _ = scene.arena("get", "a", "nope", "-o", "json")
    assert code == 3
    assert [row["name"] for row in json.loads(out)] == ["a"]


def unstartable(scene: Scene) -> str:
    """A pod that has a node and cannot start there, and the reason."""
    tfjob = job("TFJob", "a", {"Worker": 1})
    stuck = pod(tfjob, "worker", 0, node="n")
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "keys" not found'}
    stuck["status"]["containerStatuses"] = [{"name": "c", "state": {"waiting": waiting}}]
    scene.objects = {"tfjobs": [tfjob], "pods": [stuck], "configmaps": []}
    return 'CreateContainerConfigError: secret "keys" not found'


def test_explain_gives_the_reason_that_get_gives(scene: Scene) -> None:
    why = unstartable(scene)

    for verb, *words in (("get", "a"), ("explain", "a"), ("explain", "a-worker-0")):
        _, out, _ = scene.arena(verb, *words)
        assert why in out, verb

    _, out, _ = scene.arena("explain", "a", "-o", "json")
    answer = json.loads(out)
    assert answer["text"] == why
    assert answer["members"][0]["why"] == why


@pytest.mark.parametrize(("word", "name"), [("job/a", "a"), ("pod/a-worker-0", "a-worker-0")])
def test_explain_shows_the_bare_name(scene: Scene, word: str, name: str) -> None:
    unstartable(scene)

    assert scene.arena("explain", word)[1].splitlines()[0].split() == ["Name:", name]


def test_explain_reports_why_a_job_is_invalid(scene: Scene) -> None:
    senseless = job("TFJob", "a", {})
    senseless["spec"] = {"tfReplicaSpecs": {"Wrokers": {}}}
    scene.objects = {"tfjobs": [senseless], "pods": [], "configmaps": []}
    _, out, _ = scene.arena("get", "a")
    reason = next(line for line in out.splitlines() if line.startswith("Reason:"))

    _, out, _ = scene.arena("explain", "a")

    assert reason.removeprefix("Reason:").strip() in out


def test_a_tensorboard_that_does_not_answer_is_shown_with_its_reason(scene: Scene) -> None:
    tfjob = condition(job("TFJob", "a", {"Worker": 1}), "Running")
    service = {
        "metadata": {"name": "a-tensorboard", "namespace": "default"},
        "spec": {"ports": [{"port": 6006, "nodePort": 30001}]},
    }
    board = pod(tfjob, "tensorboard", 0, phase="Running", name="a-tensorboard-1")
    board["metadata"] |= {"labels": {"release": "a", "role": "tensorboard"}, "ownerReferences": []}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}
    ended = {
        "terminated": {"exitCode": 127, "reason": "Error", "message": "tensorboard: not found"}
    }
    board["status"]["containerStatuses"] = [
        {"name": "c", "restartCount": 3, "state": {"waiting": waiting}, "lastState": ended}
    ]
    scene.objects = {"tfjobs": [tfjob], "pods": [board], "services": [service], "configmaps": []}

    _, out, _ = scene.arena("get", "a")
    assert "http://127.0.0.1:30001\n  It does not answer yet: CrashLoopBackOff: " in out
    assert "tensorboard: not found" in out

    board["status"]["containerStatuses"] = [{"name": "c", "state": {"running": {}}}]
    _, out, _ = scene.arena("get", "a")
    assert "It does not answer yet: it has started and is loading\n" in out

    board["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    _, out, _ = scene.arena("get", "a")
    assert "does not answer" not in out


def test_attaching_to_a_missing_container_is_an_error(scene: Scene) -> None:
    tfjob = condition(job("TFJob", "a", {"Worker": 1}), "Running")
    scene.objects = {"tfjobs": [tfjob], "pods": [pod(tfjob, "worker", 0, phase="Running")]}

    assert scene.arena("attach", "a", "-c", "nosuch")[::2] == (
        3,
        "error: a-worker-0 has no container nosuch\nIts containers: c.\n",
    )
